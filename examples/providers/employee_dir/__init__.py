"""Tells the Knowledge Store who works here, from an LDAP directory or its LDIF export."""
