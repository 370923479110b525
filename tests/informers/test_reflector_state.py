import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.errors import (
    APIError,
    BadRequest,
    Expired,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    NotFound,
    RequestError,
    StreamBroken,
    TooManyRequests,
    from_status,
)
from ctl.informers.reflector_state import (
    Action,
    FetchPage,
    FetchVersion,
    OpenWatch,
    Phase,
    ReflectorState,
    StreamList,
    Wait,
)
from ctl.informers.settings import InformerSettings

PAGES = InformerSettings(stream_lists=False)
TOO_LARGE = from_status(504, {"reason": "Timeout", "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}})


def begun(settings: InformerSettings = PAGES) -> ReflectorState:
    return ReflectorState(settings, 0.0)


def act(life: ReflectorState, now: float, random: float = 0.5) -> Action:
    action = life.next(random)
    if not isinstance(action, Wait):
        life.begun(now, action)
    return action


def watching(settings: InformerSettings = PAGES, version: str = "100", now: float = 0.0) -> ReflectorState:
    life = begun(settings)
    if settings.stream_lists:
        act(life, now)
        life.opened(now)
        life.streamed(now, version)
    else:
        act(life, now)
        assert life.paged(now, version, None)
        assert isinstance(act(life, now), OpenWatch)
        life.opened(now)
    return life


def test_the_first_list_is_streamed_and_the_stream_goes_on_as_the_watch() -> None:
    life = begun(InformerSettings())
    assert isinstance(act(life, 0), StreamList)
    phases = [life.phase]
    life.opened(0)
    life.streamed(1, "100")
    assert [*phases, life.phase] == [Phase.STREAMING, Phase.WATCHING]
    life.progressed("105")
    life.ended(400, 0.5)
    assert act(life, 400) == OpenWatch("105", 450)


def test_pages_are_followed_to_the_end_and_then_watched_from_their_version() -> None:
    life = begun()
    assert act(life, 0) == FetchPage(None, None, 500)
    assert not life.paged(0, "100", "token")
    assert act(life, 0) == FetchPage(None, None, 500, "token")
    assert life.paged(0, "100", None)
    assert act(life, 0) == OpenWatch("100", 450)


def test_watches_last_between_five_and_ten_minutes_by_chance() -> None:
    life = watching()
    timeouts = [action.timeout for random in (0.0, 0.999) if isinstance(action := life.next(random), OpenWatch)]
    assert timeouts == [300, 599]


@pytest.mark.parametrize("error", [Invalid(422), BadRequest(400)])
def test_a_server_without_streamed_lists_is_asked_for_pages_at_once_and_for_good(error: APIError) -> None:
    life = begun(InformerSettings())
    act(life, 0)
    life.failed(0, 0.5, error)
    assert isinstance(act(life, 0), FetchPage)
    life.paged(0, "100", None)
    life.opened(0)
    life.progressed("101")
    life.failed(9, 0.5, Expired(410))
    assert isinstance(act(life, 9), FetchPage)


def test_a_stream_that_breaks_or_stalls_in_the_middle_is_listed_in_pages_this_once() -> None:
    for spoil in ("break", "stall", "end"):
        life = begun(InformerSettings())
        act(life, 0)
        life.opened(0)
        life.progressed("")
        if spoil == "break":
            life.failed(5, 0.5, StreamBroken("cut"))
        elif spoil == "stall":
            life.stalled()
        else:
            life.ended(5, 0.5)
        assert isinstance(act(life, 5), FetchPage)
        life.paged(5, "100", None)
        act(life, 5)
        life.opened(5)
        life.progressed("101")
        life.failed(99, 0.5, Expired(410))
        assert isinstance(act(life, 99), StreamList), "the next list is streamed again"


def test_an_expired_version_leads_to_a_consistent_list_at_once() -> None:
    life = watching(InformerSettings(stream_lists=False, consistent=False))
    life.progressed("120")
    life.failed(50, 0.5, Expired(410))
    assert life.phase is Phase.EXPIRED
    assert act(life, 50) == FetchPage(None, None, 500)


def test_lists_of_any_state_are_asked_as_client_go_asks() -> None:
    life = begun(InformerSettings(stream_lists=False, consistent=False))
    assert act(life, 0) == FetchPage("0", None, 500, consistent=False)
    life.failed(0, 0.5, TOO_LARGE)
    assert act(life, 0) == FetchPage(None, None, 500)


def test_a_server_that_always_says_expired_is_not_asked_in_a_tight_loop() -> None:
    life = watching()
    life.failed(0.1, 0.5, Expired(410))
    assert isinstance(act(life, 0.1), Wait)
    assert isinstance(act(life, 2), FetchPage)
    life.failed(2, 0.5, Expired(410))
    assert isinstance(act(life, 2), Wait), "also when consistent lists expire"


def test_a_list_that_expires_between_its_pages_begins_anew_and_is_then_read_in_one_piece() -> None:
    life = begun()
    for limit in (500, 500):
        assert act(life, 0) == FetchPage(None, None, limit)
        life.paged(0, "100", "token")
        act(life, 0)
        life.failed(1, 0.5, Expired(410))
    assert act(life, 1) == FetchPage(None, None, None)
    assert life.paged(1, "101", None)
    life.opened(1)
    life.progressed("102")
    life.failed(50, 0.5, Gone(410))
    assert act(life, 50) == FetchPage(None, None, 500), "later lists come in pages again"


@pytest.mark.parametrize("error", [NotFound(404), Forbidden(403)])
def test_what_people_must_mend_is_parked_and_stays_so_until_it_works(error: APIError) -> None:
    life = begun()
    act(life, 0)
    life.failed(10, 0.5, error)
    for now in (20, 30, 40):
        assert isinstance(act(life, now), Wait)
        assert isinstance(act(life, now), FetchPage)
        assert (life.phase, life.since, life.error) == (Phase.PARKED, 10, error)
        life.failed(now, 0.5, error)
    life.retry_now()
    assert act(life, 50) == Wait(0.0)
    act(life, 50)
    life.paged(50, "100", None)
    assert life.phase is Phase.LISTING
    assert life.error is None


def test_a_refused_watch_is_opened_again_from_the_same_version() -> None:
    for error in (TooManyRequests(429), InternalError(500), RequestError("refused"), Forbidden(403)):
        life = watching()
        life.ended(100, 0.5)
        act(life, 100)
        life.failed(100, 0.5, error)
        assert isinstance(act(life, 100), Wait)
        assert act(life, 101) == OpenWatch("100", 450)


def test_a_server_that_asks_for_time_gets_it() -> None:
    life = begun()
    act(life, 0)
    life.failed(0, 0.0, TooManyRequests(429, retry_after=17.0))
    assert act(life, 0) == Wait(17.0)


def test_delays_grow_to_the_plateau_and_begin_anew_after_two_minutes() -> None:
    life, delays = begun(), []
    for now in range(0, 300, 30):
        act(life, now)
        life.failed(now, 0.0, InternalError(500))
        wait = act(life, now)
        assert isinstance(wait, Wait)
        delays.append(wait.seconds)
    assert delays[:6] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6]
    assert delays[6:] == [30.0] * 4
    life.failed(1000, 0.0, InternalError(500))
    assert act(life, 1000) == Wait(0.8)


def test_a_watch_that_ends_at_once_without_any_event_is_a_failure() -> None:
    life = watching()
    life.ended(0.5, 0.5)
    assert isinstance(act(life, 0.5), Wait)
    life = watching()
    life.progressed("101")
    life.ended(0.5, 0.5)
    assert isinstance(act(life, 0.5), OpenWatch)


def test_a_watch_that_breaks_on_the_same_event_again_and_again_is_given_up_for_a_list() -> None:
    life = watching()
    life.progressed("105")
    for now in (1, 2):
        life.failed(now, 0.5, StreamBroken("no event"))
        while isinstance(action := act(life, now), Wait):
            pass
        assert action == OpenWatch("105", 450)
        life.opened(now)
    life.failed(3, 0.5, StreamBroken("no event"))
    while isinstance(action := act(life, 3), Wait):
        pass
    assert isinstance(action, FetchPage)


def test_a_version_that_the_server_does_not_understand_is_given_up_for_a_list() -> None:
    life = watching()
    life.ended(100, 0.5)
    act(life, 100)
    life.failed(100, 0.5, BadRequest(400))
    assert isinstance(act(life, 100), Wait)
    assert isinstance(act(life, 102), FetchPage)


def silent(life: ReflectorState, now: float) -> None:
    act(life, now)
    life.opened(now)
    life.stalled()


def test_a_server_that_is_silent_again_and_again_is_asked_for_its_version() -> None:
    life = watching()
    life.cadence.bookmark(10)
    life.cadence.bookmark(70)
    silent(life, 100)
    silent(life, 200)
    assert act(life, 300) == FetchVersion()
    life.probed("90")
    assert isinstance(act(life, 300), FetchPage), (
        "it was restored from a backup: what we have is from a future that never was"
    )


def test_a_server_that_is_rightly_silent_is_watched_on() -> None:
    life = watching()
    life.cadence.bookmark(10)
    life.cadence.bookmark(70)
    silent(life, 100)
    silent(life, 200)
    act(life, 300)
    life.probed("100")
    assert isinstance(act(life, 300), OpenWatch)


def test_servers_without_bookmarks_may_be_silent() -> None:
    life = watching()
    for now in range(100, 2000, 90):
        silent(life, now)
        assert isinstance(life.next(0.5), OpenWatch)


def test_who_comes_back_from_a_failure_and_is_silent_is_asked_at_once() -> None:
    """A server that was restored from a backup was away before."""
    life = watching(InformerSettings())
    life.ended(100, 0.5)
    act(life, 100)
    life.failed(100, 0.5, RequestError("refused"))
    assert isinstance(act(life, 100), Wait)
    silent(life, 102)
    assert act(life, 200) == FetchVersion()


def test_events_from_before_the_watch_are_asked_about_now_and_then() -> None:
    life = watching()
    assert life.doubted(10)
    assert act(life, 10) == FetchVersion()
    life.probed("100")
    assert isinstance(act(life, 10), OpenWatch)
    life.opened(10)
    assert not life.doubted(99)
    assert life.doubted(101)
    assert act(life, 101) == FetchVersion()
    life.probed("90")
    assert isinstance(act(life, 101), FetchPage)


def test_a_watch_that_repeats_itself_and_ends_is_opened_again_with_pauses() -> None:
    life, now = watching(), 0.5
    for _ in range(10):
        life.progressed("100")
        life.ended(now, 0.5)
        wait = act(life, now)
        assert isinstance(wait, Wait)
        assert wait.seconds > 0.5
        now += wait.seconds
        assert isinstance(act(life, now), OpenWatch)
        life.opened(now)
    life.progressed("101")
    life.ended(now, 0.5)
    assert isinstance(act(life, now), OpenWatch)


@pytest.mark.parametrize("how", ["ends", "breaks", "is cut"])
def test_watches_that_bring_something_and_end_at_once_are_opened_again_with_growing_pauses(how: str) -> None:
    life, now, waits = watching(), 0.5, []
    for version in range(101, 109):
        life.progressed(str(version))
        if how == "ends":
            life.ended(now, 0.5)
        else:
            life.failed(now, 0.5, StreamBroken("no event") if how == "breaks" else RequestError("reset"))
        action = act(life, now)
        if isinstance(action, Wait):
            waits.append(action.seconds)
            now += action.seconds
            action = act(life, now)
        assert action == OpenWatch(str(version), 450)
        life.opened(now)
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
    # One that lasts is proof that it is over.
    life.progressed("200")
    life.ended(now + 1, 0.5)
    assert isinstance(act(life, now + 1), OpenWatch)
    life.opened(now + 1)
    life.progressed("201")
    life.ended(now + 1.5, 0.5)
    assert isinstance(act(life, now + 1.5), OpenWatch)


def test_what_repeats_itself_before_it_breaks_is_listed_anew() -> None:
    life, now = watching(), 100.0
    for _ in range(3):
        life.progressed("100")
        life.failed(now, 0.5, StreamBroken("no event"))
        while isinstance(action := act(life, now), Wait):
            now += action.seconds
        life.opened(now)
    assert isinstance(action, FetchPage)


def test_a_server_that_says_when_to_come_again_is_not_left_alone_for_much_longer() -> None:
    life, now = watching(), 100.0
    life.ended(now, 0.5)
    waits = []
    for _ in range(10):
        act(life, now)
        life.failed(now, 0.5, TooManyRequests(429, retry_after=1.0))
        wait = act(life, now)
        assert isinstance(wait, Wait)
        waits.append(wait.seconds)
        now += wait.seconds
    assert waits[:2] == [1.2000000000000002, 2.4000000000000004]
    assert max(waits) == 10.0


def test_no_server_may_ask_for_deafness() -> None:
    life = watching()
    life.failed(100, 0.5, TooManyRequests(429, retry_after=86400.0))
    assert act(life, 100) == Wait(90.0)


@given(
    st.lists(
        st.sampled_from(
            ["page", "more", "open", "progress", "end", "stall", "expire", "fail", "park", "break", "retry"]
        ),
        max_size=60,
    ),
    st.booleans(),
)
def test_it_always_has_something_to_do_and_never_in_a_tight_loop(reports: list[str], streams: bool) -> None:
    """Whatever is reported, at most a few requests are made within the same moment."""
    life = begun(InformerSettings(stream_lists=streams))
    now, busy = 0.0, 0
    for report in reports:
        action = act(life, now)
        if isinstance(action, Wait):
            assert action.seconds >= 0
            now += action.seconds
            busy = 0
            continue
        busy += 1
        carry_out(life, action, report, now)
        if report in {"expire", "fail", "park"}:
            assert busy < 5 or life.error is not None
        if report in {"page", "more", "progress", "stall"}:
            busy = 0
            now += 2.0
        assert (life.phase in {Phase.BACKING_OFF, Phase.PARKED}) == (life.error is not None)


def carry_out(life: ReflectorState, action: Action, report: str, now: float) -> None:
    errors = {"expire": Expired(410), "park": Forbidden(403), "break": StreamBroken("no event")}
    if report == "retry":
        life.retry_now()
    elif report in {"page", "more"} and isinstance(action, FetchPage):
        life.paged(now, "100", "token" if report == "more" else None)
    elif report in {"open", "progress", "end", "stall"} and isinstance(action, (OpenWatch, StreamList)):
        life.opened(now)
        if isinstance(action, StreamList) and report != "stall":
            life.streamed(now, "100")
        if report == "progress":
            life.progressed("101")
        if report == "stall":
            life.stalled()
        else:
            life.ended(now + 0.1, 0.5)
    else:
        life.failed(now, 0.5, errors.get(report, InternalError(500)))


def test_a_pause_between_streams_is_made_when_it_is_asked_for() -> None:
    life = watching(InformerSettings(stream_lists=False, stream_pause=3.0))
    life.ended(100.0, 0.5)
    assert act(life, 100.0) == Wait(3.0)
    assert isinstance(act(life, 103.0), OpenWatch)
    assert life.error is None
