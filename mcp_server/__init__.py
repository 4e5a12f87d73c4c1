"""The Knowledge Layer for agents: nine tools over stdio, for one session that the environment names.

    settings    the session, from KL_DSN, KL_AGENT_IDENTITY, KL_AGENT_CLASS, KL_GRANTS and KL_WRITE_ENABLED
    arguments   what each tool takes, and nothing else
    tools       the tools: what each does, and who is offered it
    answers     what goes back: content marked as data, receipts, typed refusals
    server      an MCP server of the tools that a session is offered
    stdio       a stdout that carries the protocol only
    serve       all of it: ``knowledge mcp``

A leaf: it uses ``knowledge.items``, and nothing but ``cli`` imports it. docs/adr/0016 says why it is as it is.
"""
