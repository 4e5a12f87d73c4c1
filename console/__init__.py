"""The operators' web page: what the store holds, how it is doing, and what it would answer.

    functions/console/app.py ─► app.py ─► pages/*.py ─► store.py ─► the store's HTTP API, as any operator's tool
                                   │           └─► rendering.py ─► templates/*.html
                                   └─► session.py (who is signed in)

Pages are made on the server and work without JavaScript; htmx brings what is live, uPlot draws the dashboard. Both are
vendored in ``static`` with their licences. Nothing is loaded from elsewhere, and no page has a script or style in it.
"""
