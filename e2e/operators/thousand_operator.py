import os

import ctl


@ctl.on.startup()
def count_rounds_not_seconds(settings, **_):
    # On a busy machine a round of ten handlers may take longer than the interval: its checkpoint is a write of its own.
    settings.persistence.checkpoint_interval = 60.0


for number in range(int(os.environ.get("HANDLERS", "1"))):

    @ctl.on.create("kopfexamples", id=f"create_{number}")
    async def create_fn(name, logger, **_):
        logger.info("called: %s", name)
