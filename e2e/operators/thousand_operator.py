import os

import ctl

for number in range(int(os.environ.get("HANDLERS", "1"))):

    @ctl.on.create("kopfexamples", id=f"create_{number}")
    async def create_fn(name, logger, **_):
        logger.info("called: %s", name)
