import os

import ctl


@ctl.on.login(retries=3)
def login_from_environment(logger, **_):
    server = os.environ.get("EXAMPLE_SERVER")
    if server is None:
        return None  # no credentials; the next handler is called
    logger.info("credentials from the environment, for %s", server)
    return ctl.ConnectionInfo(
        server=server,
        token=os.environ.get("EXAMPLE_TOKEN"),
        ca_path=os.environ.get("EXAMPLE_CA"),
    )


@ctl.on.login(retries=3)
def login_from_kubeconfig(logger, **kwargs):
    logger.info("credentials from the kubeconfig or the pod")
    return ctl.login_with_service_account(logger=logger, **kwargs) or ctl.login_with_kubeconfig(logger=logger, **kwargs)


@ctl.on.create("kopfexamples")
def create_fn(name, logger, **_):
    logger.info("%s was created", name)
