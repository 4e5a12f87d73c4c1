"""A local Lambda service: runs the functions of a SAM template in worker processes, with no Docker and no account.

    template.yaml ─► template.py ─► FunctionSpec ─► pool.py ─► worker.py ─► bootstrap.py ─► awslambdaric ─► app.handler
                                                       ▲          └─ runtime_api.py (the documented Runtime API)
    HTTP  ─► gateway.py (HTTP API and Function URLs) ──┤
    boto3 ─► invoke_api.py (Invoke) ───────────────────┤
    clock ─► scheduler.py (rules in the AWS emulator) ─┘

The template is the only source of functions, routes, environment and limits. `python -m local.lambda_service --help`
tells how to run it, docs/adr/0004-local-lambda-service.md why it is built this way.
"""
