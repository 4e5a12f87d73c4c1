from __future__ import annotations

from pathlib import Path

import pytest

from local.settings import CHECKOUT, LocalSettings
from spot_sdk.errors import InvalidInput


def test_defaults_need_no_environment() -> None:
    assert LocalSettings.from_environment({}) == LocalSettings(
        port=8787, home=CHECKOUT / ".knowledge", functions={"EMBEDDING_BACKEND": "minilm"}
    )
    assert (CHECKOUT / "template.yaml").is_file()


@pytest.mark.parametrize(("text", "port"), [("1", 1), ("9000", 9000), (" 65535 ", 65535), ("", 8787), ("  ", 8787)])
def test_port(text: str, port: int) -> None:
    assert LocalSettings.from_environment({"PORT": text}).port == port


@pytest.mark.parametrize("text", ["0", "65536", "-1", "80a", "8787.0", "٨٧٨٧", "²", "1" * 5000, "http"])
def test_a_bad_port_is_one_clear_line(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^PORT='[^\n]+' is not a port number \(1 to 65535\)$"):
        LocalSettings.from_environment({"PORT": text})


def test_home_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert LocalSettings.from_environment({"KNOWLEDGE_HOME": "here/it is"}).home == tmp_path / "here" / "it is"
    assert LocalSettings.from_environment({"KNOWLEDGE_HOME": "~/k"}).home == Path("/home/somebody/k")
    assert LocalSettings.from_environment({"KNOWLEDGE_HOME": ""}).home == CHECKOUT / ".knowledge"


def test_the_functions_get_what_chooses_the_embedder_and_nothing_else() -> None:
    environment = {"EMBEDDING_BACKEND": "ollama", "OLLAMA_URL": "http://127.0.0.1:11434", "LOG_LEVEL": "", "HOME": "/"}
    assert LocalSettings.from_environment(environment).functions == {
        "EMBEDDING_BACKEND": "ollama",
        "OLLAMA_URL": "http://127.0.0.1:11434",
    }


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "4242")
    assert LocalSettings.from_environment().port == 4242
