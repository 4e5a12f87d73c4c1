"""What this provider takes from the environment, and where the example company's directory is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from examples.providers.settings import read

PACKAGE = Path(__file__).parent
EXAMPLE_LDIF = PACKAGE.parents[1] / "company" / "directory.ldif"


class LdapSettings(BaseModel):
    """How to list an LDAP directory.

    Connections are encrypted and the server's certificate is verified unless somebody says otherwise. ``filter``
    chooses the entries; for Active Directory, leave out computers and disabled accounts with
    ``(&(objectCategory=person)(objectClass=user)(!(userAccountControl:1.2.840.113556.1.4.803:=2)))``.
    ``references`` says what to do when the server answers that parts of the subtree are elsewhere.
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    url: Annotated[str, Field(validation_alias="EMPLOYEE_DIR_LDAP_URL")]
    base: Annotated[str, Field(validation_alias="EMPLOYEE_DIR_LDAP_BASE")]
    filter: Annotated[str, Field(validation_alias="EMPLOYEE_DIR_LDAP_FILTER")] = "(objectClass=person)"
    bind_dn: Annotated[str | None, Field(validation_alias="EMPLOYEE_DIR_LDAP_BIND_DN")] = None
    bind_password: Annotated[SecretStr | None, Field(validation_alias="EMPLOYEE_DIR_LDAP_BIND_PASSWORD")] = None
    tls: Annotated[Literal["starttls", "off"], Field(validation_alias="EMPLOYEE_DIR_LDAP_TLS")] = "starttls"
    ca_file: Annotated[Path | None, Field(validation_alias="EMPLOYEE_DIR_LDAP_CA_FILE")] = None
    verify: Annotated[bool, Field(validation_alias="EMPLOYEE_DIR_LDAP_VERIFY")] = True
    page_size: Annotated[int, Field(validation_alias="EMPLOYEE_DIR_LDAP_PAGE_SIZE", ge=1, le=5_000)] = 500
    timeout_s: Annotated[int, Field(validation_alias="EMPLOYEE_DIR_LDAP_TIMEOUT_S", ge=1)] = 30
    references: Annotated[Literal["refuse", "ignore"], Field(validation_alias="EMPLOYEE_DIR_LDAP_REFERENCES")] = (
        "refuse"
    )

    @property
    def is_ldaps(self) -> bool:
        return urlsplit(self.url).scheme == "ldaps"

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or (636 if self.is_ldaps else 389)

    @field_validator("url")
    @classmethod
    def _can_be_called(cls, url: str) -> str:
        if not re.fullmatch(r"ldaps?://([^\s/@:\[\]]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?/?", url):
            raise ValueError("expected ldap://host[:port] or ldaps://host[:port]")
        return url

    @model_validator(mode="after")
    def _name_and_password_come_together(self) -> Self:
        if (self.bind_dn is None) != (self.bind_password is None):
            raise ValueError("set both EMPLOYEE_DIR_LDAP_BIND_DN and EMPLOYEE_DIR_LDAP_BIND_PASSWORD, or none")
        return self


class DirectorySettings(BaseModel):
    """Where the directory is: an LDAP server if one is named, else an LDIF file; and the rules that tell who is who."""

    model_config = ConfigDict(frozen=True)

    ldap_url: Annotated[str | None, Field(validation_alias="EMPLOYEE_DIR_LDAP_URL")] = None
    ldif: Annotated[Path, Field(validation_alias="EMPLOYEE_DIR_LDIF")] = EXAMPLE_LDIF
    rules: Annotated[Path, Field(validation_alias="EMPLOYEE_DIR_RULES")] = PACKAGE / "rules.yaml"


def directory(environment: Mapping[str, str] | None = None) -> DirectorySettings:
    return read(DirectorySettings, environment)


def ldap(environment: Mapping[str, str] | None = None) -> LdapSettings:
    return read(LdapSettings, environment)
