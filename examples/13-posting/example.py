import ctl


@ctl.on.startup()
def configure(settings, **_):
    settings.posting.reporting_component = "posting-example"


@ctl.on.create("kopfexamples")
def create_fn(body, spec, **_):
    ctl.info(body, reason="Noticed", message=f"The field is {spec.get('field')!r}.")
    ctl.warn(body, reason="Careful", message="This is only an example.")
    try:
        int(spec.get("field", "value"))
    except ValueError:
        ctl.exception(body, message="The field is no number:")
    ctl.event(body, type="SomeType", reason="SomeReason", message="Any type will do.")


@ctl.timer("kopfexamples", interval=0.2)
async def again(body, **_):
    ctl.info(body, reason="Again", message="This is one event, however often it is said.")
