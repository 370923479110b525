import concurrent.futures
import dataclasses
import itertools
import logging
import warnings
from datetime import timedelta
from typing import Any

import pytest

from ctl.client.resources import Resource
from ctl.handlers.declaration.targets import SelectorMapping
from ctl.handlers.settings import OperatorSettings, SettingsFrozenWarning
from ctl.handlers.storage.diffbase import AnnotationsDiffBaseStorage
from ctl.handlers.storage.progress import SmartProgressStorage

FIBONACCI = (1, 1, 2, 3, 5, 8, 13, 21)

# What an unmodified operator of Kopf 1.45.2 finds.
DEFAULTS: dict[str, dict[str, Any]] = {
    "process": {"ultimate_exiting_timeout": 600},
    "posting": {
        "enabled": True,
        "loggers": False,
        "level": logging.INFO,
        "default_backoffs": FIBONACCI,
        "logging_backoffs": (1, 1, 2, 3, 5),
        "worker_limit": None,
        "idle_timeout": 1.0,
        "reporting_component": "kopf",
        "reporting_instance": "dev",
        "event_name_prefix": "kopf-event-",
    },
    "peering": {
        "name": "default",
        "stealth": False,
        "priority": 0,
        "lifetime": 60,
        "mandatory": False,
        "standalone": False,
        "clusterwide": False,
        "namespaced": True,
    },
    "watching": {
        "server_timeout": None,
        "client_timeout": None,
        "connect_timeout": None,
        "reconnect_backoff": 0.1,
        "inactivity_timeout": 70.0,
        "chunk_size": None,
        "initial_streaming": False,
        "label_selectors": {},
        "field_selectors": {},
        "shard_selectors": {},
    },
    "queueing": {
        "worker_limit": None,
        "idle_timeout": 5.0,
        "exit_timeout": 2.0,
        "error_delays": (*FIBONACCI, 34, 55, 89, 144, 233, 377, 610),
    },
    "scanning": {"disabled": False},
    "admission": {"server": None, "managed": None},
    "execution": {"default_backoff": 60, "max_workers": None},
    "background": {
        "cancellation_polling": 60,
        "instant_exit_timeout": None,
        "instant_exit_zero_time_cycles": 10,
    },
    "networking": {
        "request_timeout": 300,
        "connect_timeout": None,
        "error_backoffs": FIBONACCI,
        "enforce_retry_after": False,
        "trust_env": False,
    },
    "persistence": {"finalizer": "kopf.zalando.org/KopfFinalizerMarker", "consistency_timeout": 5.0},
}


@pytest.fixture
def settings() -> OperatorSettings:
    return OperatorSettings()


def test_defaults(settings: OperatorSettings) -> None:
    found = {
        group: {name: getattr(getattr(settings, group), name) for name in names} for group, names in DEFAULTS.items()
    }
    assert found == DEFAULTS
    # Some are ours alone.
    assert {item.name for item in dataclasses.fields(settings)} == {*DEFAULTS, "leadership", "diagnostics"}
    assert type(settings.execution.executor) is concurrent.futures.ThreadPoolExecutor
    assert type(settings.persistence.progress_storage) is SmartProgressStorage
    assert type(settings.persistence.diffbase_storage) is AnnotationsDiffBaseStorage


def test_operators_share_nothing(settings: OperatorSettings) -> None:
    settings.posting.enabled = False
    settings.watching.label_selectors["kex"] = "a=b"
    assert OperatorSettings().posting.enabled
    assert not OperatorSettings().watching.label_selectors


@pytest.mark.parametrize(
    ("group", "name", "hint"),
    [
        ("posting", "enabeld", "Did you mean 'enabled'?"),
        ("peering", "namespace", "Did you mean 'namespaced'?"),
        ("scanning", "zzz", "There are: disabled."),
    ],
)
def test_a_setting_that_does_not_exist_is_warned_of(
    settings: OperatorSettings, group: str, name: str, hint: str
) -> None:
    """It may be one of another version of Kopf, whose operator is not to fail for that."""
    with pytest.warns(UserWarning, match=f"has no setting '{name}'") as caught:
        setattr(getattr(settings, group), name, 1)
    assert str(caught[0].message) == f"{group.title()}Settings has no setting {name!r}: it has no effect. {hint}"
    assert caught[0].filename == __file__
    assert getattr(getattr(settings, group), name) == 1


def test_a_group_that_does_not_exist_is_warned_of(settings: OperatorSettings) -> None:
    untyped: Any = settings
    with pytest.warns(UserWarning, match="Did you mean 'posting'"):
        untyped.postings = 1


def test_peering_of_a_namespace_is_the_contrary_of_that_of_the_cluster(settings: OperatorSettings) -> None:
    settings.peering.namespaced = False
    assert settings.peering.clusterwide
    settings.peering.clusterwide = False
    assert settings.peering.namespaced


class TestDeprecated:
    def test_batching_is_queueing(self, settings: OperatorSettings) -> None:
        with pytest.warns(DeprecationWarning, match="Batching settings are now queueing settings") as caught:
            settings.batching.error_delays = [10, 20]
        assert settings.queueing.error_delays == [10, 20]
        assert caught[0].filename == __file__

    def test_the_batch_window_is_kept_and_does_nothing(self, settings: OperatorSettings) -> None:
        with pytest.warns(DeprecationWarning, match="Time-based event batching was removed") as caught:
            settings.queueing.batch_window = 3
        assert caught[0].filename == __file__
        with pytest.warns(DeprecationWarning, match="no effect"):
            assert settings.queueing.batch_window == 3


def test_groups_are_given_in_kopfs_order() -> None:
    known = OperatorSettings()
    settings = OperatorSettings(known.process, known.posting, known.peering, known.watching, known.queueing)
    assert settings.peering is known.peering
    assert settings.watching is known.watching
    assert settings.queueing is known.queueing


class TestNumbers:
    """What comes from the environment is text; what is no number at all is refused where it is set, and not where it is used."""

    @pytest.mark.parametrize(
        ("group", "name", "given", "value"),
        [
            ("watching", "server_timeout", "60", 60.0),
            ("networking", "request_timeout", " 2.5 ", 2.5),
            ("networking", "error_backoffs", "5", 5.0),
            ("peering", "priority", "100", 100),
            ("queueing", "worker_limit", None, None),
            ("networking", "error_backoffs", 3, 3),
            ("queueing", "error_delays", [1, 2], [1, 2]),
            ("persistence", "largest_annotation", "100000", 100000),
        ],
    )
    def test_numbers_are_read(self, settings: OperatorSettings, group: str, name: str, given: Any, value: Any) -> None:
        setattr(getattr(settings, group), name, given)
        read = getattr(getattr(settings, group), name)
        assert read == value
        assert type(read) is type(value)

    def test_pauses_may_be_without_an_end(self, settings: OperatorSettings) -> None:
        settings.networking.error_backoffs = endless = itertools.repeat(1.0)
        assert settings.networking.error_backoffs is endless

    @pytest.mark.parametrize(
        ("group", "name", "given", "said"),
        [
            ("networking", "request_timeout", "5s", r"NetworkingSettings\.request_timeout takes a number; got '5s'"),
            ("posting", "level", "INFO", r"PostingSettings\.level takes a number; got 'INFO'"),
            ("queueing", "worker_limit", "1.5", r"QueueingSettings\.worker_limit takes a number; got '1\.5'"),
            ("queueing", "error_delays", "1", r"QueueingSettings\.error_delays takes several numbers; got '1'"),
            ("queueing", "error_delays", 1, r"QueueingSettings\.error_delays takes several numbers; got 1"),
            (
                "persistence",
                "consistency_timeout",
                timedelta(seconds=5),
                r"consistency_timeout takes a number; got datetime",
            ),
            ("execution", "max_workers", "many", r"settings\.execution\.max_workers takes a number; got 'many'"),
        ],
    )
    def test_others_are_refused(self, settings: OperatorSettings, group: str, name: str, given: Any, said: str) -> None:
        before = getattr(getattr(settings, group), name)
        with pytest.raises(TypeError, match=said):
            setattr(getattr(settings, group), name, given)
        assert getattr(getattr(settings, group), name) == before


class TestWorkers:
    def test_the_limit_is_the_executors(self, settings: OperatorSettings) -> None:
        settings.execution.max_workers = 1
        assert settings.execution.max_workers == 1
        with settings.execution.executor as executor:
            first, second = (executor.submit(__import__("threading").get_ident) for _ in range(2))
            assert first.result(10) == second.result(10)

    def test_the_limit_may_come_from_the_environment(self, settings: OperatorSettings) -> None:
        text: Any = "3"
        settings.execution.max_workers = text
        assert settings.execution.max_workers == 3

    @pytest.mark.parametrize("value", [0, -1, None])
    def test_there_is_at_least_one(self, settings: OperatorSettings, value: Any) -> None:
        with pytest.raises(ValueError, match=f"got {value}"):
            settings.execution.max_workers = value

    def test_an_executor_without_a_limit_refuses_one(self, settings: OperatorSettings) -> None:
        settings.execution.executor = concurrent.futures.Executor()
        with pytest.raises(TypeError, match="Executor"):
            settings.execution.max_workers = 3


def test_selectors_may_be_given_as_a_plain_dict(settings: OperatorSettings) -> None:
    plain: Any = {"kex": "a=b", ("kopf.dev", "v1", "others"): "c=d"}
    settings.watching.label_selectors = plain
    assert isinstance(settings.watching.label_selectors, SelectorMapping)
    kex = Resource("kopf.dev", "v1", "kopfexamples", shortcuts=frozenset({"kex"}))
    assert settings.watching.label_selectors.collect(kex) == ["a=b"]


class TestFrozen:
    def test_changes_are_made_and_warned_of(self, settings: OperatorSettings) -> None:
        settings.freeze()
        with pytest.warns(SettingsFrozenWarning, match=r"PostingSettings\.level is changed to 40") as caught:
            settings.posting.level = logging.ERROR
        assert settings.posting.level == logging.ERROR
        assert caught[0].filename == __file__

    def test_the_warning_points_at_the_change_in_each_group(self, settings: OperatorSettings) -> None:
        settings.freeze()
        plain: Any = {"kex": "a=b"}
        with pytest.warns(SettingsFrozenWarning, match=r"WatchingSettings\.label_selectors") as caught:
            settings.watching.label_selectors = plain
        assert caught[0].filename == __file__

    def test_what_stays_the_same_is_no_change(self, settings: OperatorSettings) -> None:
        settings.freeze()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            settings.posting.level = logging.INFO

    def test_other_operators_are_not_frozen(self, settings: OperatorSettings) -> None:
        settings.freeze()
        OperatorSettings().posting.level = logging.ERROR

    def test_what_does_not_exist_is_warned_of_as_such(self, settings: OperatorSettings) -> None:
        settings.freeze()
        untyped: Any = settings.posting
        with pytest.warns(UserWarning, match="has no setting 'nothing'"):
            untyped.nothing = 1


@pytest.mark.parametrize(("name", "value"), [("server", object()), ("managed", "auto.kopf.dev")])
def test_settings_of_admission_say_that_they_have_no_effect(name: str, value: object) -> None:
    settings = OperatorSettings()
    with pytest.warns(UserWarning, match=f"settings.admission.{name} has no effect") as caught:
        setattr(settings.admission, name, value)
    assert caught[0].filename == __file__
    assert getattr(settings.admission, name) is value
    setattr(settings.admission, name, None)
