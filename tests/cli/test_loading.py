"""Loading the user's code: names, paths, and what is shown when it fails."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ctl.cli.loading import LoadingError, load


@pytest.fixture(autouse=True)
def _imports_as_before() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def shown(error: LoadingError, capsys: pytest.CaptureFixture[str]) -> str:
    error.show()
    return capsys.readouterr().err


def test_files_become_modules_with_kopfs_names_and_see_their_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("value = 7\n")
    (tmp_path / "main.py").write_text("import neighbour\nseen = neighbour.value\n")
    load([str(tmp_path / "main.py")], [])
    assert sys.modules[f"__kopf_script_0__{tmp_path / 'main.py'}"].seen == 7


def test_files_are_loaded_in_order_and_before_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.py").write_text(f"import sys\nsys.ctl_test_order.append({name!r})\n")
    order: list[str] = []
    monkeypatch.setattr(sys, "ctl_test_order", order, raising=False)
    load([str(tmp_path / "two.py"), str(tmp_path / "one.py")], ["three"])
    assert order == ["two", "one", "three"]


def test_modules_are_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "__init__.py").write_text("")
    (tmp_path / "beside" / "operator_of_mine.py").write_text("value = 1\n")
    monkeypatch.chdir(tmp_path)
    load([], ["beside.operator_of_mine"])
    assert sys.modules["beside.operator_of_mine"].value == 1


def test_all_files_must_be_there_before_any_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text("raise AssertionError('loaded')\n")
    with pytest.raises(click.UsageError, match=r"gone\.py does not exist \(looked for in"):
        load([str(tmp_path / "here.py"), str(tmp_path / "gone.py")], [])


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="is a folder; a Python file is expected"):
        load([str(tmp_path)], [])


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "operator.yaml").write_text("kind: Pod")
    with pytest.raises(click.UsageError, match=r"its name should end with \.py"):
        load([str(tmp_path / "operator.yaml")], [])


def test_a_module_given_as_a_file_gets_a_hint() -> None:
    with pytest.raises(click.UsageError, match="To load a module by its name, use -m"):
        load(["my_operator"], [])


def test_a_module_that_is_hidden_by_one_of_python_gets_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "operator.py").touch()
    with pytest.raises(click.UsageError, match=r"operator is a module of Python's own.*ctl run operator\.py"):
        load([], ["operator"])


@pytest.mark.parametrize("name", ["no_such_module", "no_such_package.module", "json.no_such_part"])
def test_a_module_that_is_not_there_is_one_sentence(name: str) -> None:
    with pytest.raises(click.UsageError, match="There is no module"):
        load([], [name])


def test_a_failing_file_shows_the_users_frames_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "helper.py").write_text("def deep():\n    return 1 / 0\n")
    path = tmp_path / "main.py"
    path.write_text("from helper import deep\n\ndeep()\n")
    with pytest.raises(LoadingError) as caught:
        load([str(path)], [])
    assert caught.value.exit_code == 1
    text = shown(caught.value, capsys)
    frames = [line.strip() for line in text.splitlines() if line.strip().startswith("File ")]
    assert frames == [f'File "{path}", line 3, in <module>', f'File "{tmp_path / "helper.py"}", line 2, in deep']
    assert text.splitlines()[0] == "Traceback (most recent call last):"
    assert text.splitlines()[-2:] == [
        "ZeroDivisionError: division by zero",
        f"Error: {path} could not be loaded (ZeroDivisionError, see above).",
    ]


def test_a_missing_import_of_the_users_is_shown_where_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "main.py"
    path.write_text("\nimport not_installed_here\n")
    with pytest.raises(LoadingError) as caught:
        load([str(path)], [])
    text = shown(caught.value, capsys)
    assert f'File "{path}", line 2, in <module>' in text
    assert "ModuleNotFoundError: No module named 'not_installed_here'" in text
    assert "importlib" not in text
    assert "loading.py" not in text


def test_a_syntax_error_shows_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "main.py"
    path.write_text("def broken(:\n    pass\n")
    with pytest.raises(LoadingError) as caught:
        load([str(path)], [])
    text = shown(caught.value, capsys)
    assert "def broken(:" in text
    assert "SyntaxError" in text
    assert "loading.py" not in text


def test_a_refused_decorator_is_shown_at_the_users_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error is raised in our code: our frames are left out, the user's line is what counts."""
    path = tmp_path / "main.py"
    path.write_text("import ctl\n\n@ctl.on.create()\ndef fn(**_): pass\n")
    with pytest.raises(LoadingError) as caught:
        load([str(path)], [])
    text = shown(caught.value, capsys)
    frames = [line.strip() for line in text.splitlines() if line.strip().startswith("File ")]
    assert frames == [f'File "{path}", line 3, in <module>']
    assert "TypeError" in text


def test_causes_keep_the_users_frames_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "main.py"
    path.write_text(
        "try:\n    import not_installed_here\nexcept ImportError as exc:\n    raise RuntimeError('no way') from exc\n"
    )
    with pytest.raises(LoadingError) as caught:
        load([str(path)], [])
    text = shown(caught.value, capsys)
    frames = [line.strip() for line in text.splitlines() if line.strip().startswith("File ")]
    assert frames == [f'File "{path}", line 2, in <module>', f'File "{path}", line 4, in <module>']


def test_a_failing_module_shows_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "failing_module.py").write_text("import not_installed_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(LoadingError) as caught:
        load([], ["failing_module"])
    assert f'File "{tmp_path / "failing_module.py"}", line 1' in shown(caught.value, capsys)
