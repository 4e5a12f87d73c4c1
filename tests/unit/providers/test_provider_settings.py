"""What the providers read from the environment, and what they say when it is wrong."""

from __future__ import annotations

import pytest

from examples.providers.employee_dir import app as employee_dir
from examples.providers.employee_dir.settings import EXAMPLE_LDIF, directory, ldap
from examples.providers.settings import SettingsError
from examples.providers.wiki import app as wiki_app
from examples.providers.wiki.settings import EXAMPLE_HANDBOOK, wiki

LDAP = {"EMPLOYEE_DIR_LDAP_URL": "ldap://dir.co.example", "EMPLOYEE_DIR_LDAP_BASE": "dc=co,dc=example"}


def test_without_settings_the_example_company_is_read() -> None:
    assert directory({}).ldif == EXAMPLE_LDIF
    assert EXAMPLE_LDIF.is_file()
    assert wiki({}).folder == EXAMPLE_HANDBOOK
    assert EXAMPLE_HANDBOOK.is_dir()


def test_an_empty_variable_is_one_that_is_not_set() -> None:
    assert directory({"EMPLOYEE_DIR_LDAP_URL": "", "EMPLOYEE_DIR_LDIF": ""}).ldap_url is None


def test_ldap_is_encrypted_and_verified_unless_somebody_says_otherwise() -> None:
    settings = ldap(LDAP)
    assert (settings.tls, settings.verify, settings.is_ldaps, settings.port) == ("starttls", True, False, 389)
    settings = ldap({**LDAP, "EMPLOYEE_DIR_LDAP_URL": "ldaps://dir.co.example"})
    assert (settings.is_ldaps, settings.host, settings.port) == (True, "dir.co.example", 636)
    settings = ldap({**LDAP, "EMPLOYEE_DIR_LDAP_TLS": "off", "EMPLOYEE_DIR_LDAP_VERIFY": "0"})
    assert (settings.tls, settings.verify) == ("off", False)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"EMPLOYEE_DIR_LDAP_BASE": ""}, "EMPLOYEE_DIR_LDAP_BASE: Field required"),
        ({"EMPLOYEE_DIR_LDAP_URL": "http://dir"}, "EMPLOYEE_DIR_LDAP_URL: .*expected ldap://host"),
        ({"EMPLOYEE_DIR_LDAP_URL": "ldap://"}, "EMPLOYEE_DIR_LDAP_URL: .*expected ldap://host"),
        ({"EMPLOYEE_DIR_LDAP_URL": "ldap://u:hunter2@dir"}, "EMPLOYEE_DIR_LDAP_URL: .*expected ldap://host"),
        ({"EMPLOYEE_DIR_LDAP_URL": "ldap://dir/dc=co"}, "EMPLOYEE_DIR_LDAP_URL: .*expected ldap://host"),
        ({"EMPLOYEE_DIR_LDAP_URL": "ldap://dir:x"}, "EMPLOYEE_DIR_LDAP_URL: .*expected ldap://host"),
        ({"EMPLOYEE_DIR_LDAP_TLS": "of"}, "EMPLOYEE_DIR_LDAP_TLS: .*'starttls' or 'off'"),
        ({"EMPLOYEE_DIR_LDAP_PAGE_SIZE": "0"}, "EMPLOYEE_DIR_LDAP_PAGE_SIZE"),
        ({"EMPLOYEE_DIR_LDAP_BIND_DN": "cn=x"}, "both EMPLOYEE_DIR_LDAP_BIND_DN and EMPLOYEE_DIR_LDAP_BIND_PASSWORD"),
        ({"EMPLOYEE_DIR_LDAP_BIND_PASSWORD": "hunter2"}, "both EMPLOYEE_DIR_LDAP_BIND_DN and"),
    ],
)
def test_a_wrong_setting_is_named_and_no_secret_told(wrong: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint) as caught:
        ldap({**LDAP, **wrong})
    assert "hunter2" not in str(caught.value)


def test_what_is_wrong_shows_at_the_start_and_not_at_the_first_sync() -> None:
    store = {"SPOT_KNOWLEDGE_URL": "http://store/api/v1/knowledge"}
    with pytest.raises(SettingsError, match="SPOT_KNOWLEDGE_URL: Field required"):
        employee_dir.provider({})
    with pytest.raises(SettingsError, match="SPOT_KNOWLEDGE_URL: Field required"):
        wiki_app.provider({})
    with pytest.raises(SettingsError, match="EMPLOYEE_DIR_LDAP_BASE"):
        employee_dir.provider({**store, "EMPLOYEE_DIR_LDAP_URL": "ldap://dir"})
    with pytest.raises(SettingsError, match=r"none.yaml"):
        employee_dir.provider({**store, "EMPLOYEE_DIR_RULES": "none.yaml"})
    with pytest.raises(SettingsError, match="WIKI_GIT_TIMEOUT_S"):
        wiki_app.provider({**store, "WIKI_GIT_TIMEOUT_S": "-1"})
    with pytest.raises(SettingsError, match="PROVIDER_SYNC_TIMEOUT_S"):
        wiki_app.provider({**store, "PROVIDER_SYNC_TIMEOUT_S": "soon"})
