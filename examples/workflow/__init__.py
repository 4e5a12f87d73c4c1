"""The orchestrator's part of an analysis, as small as it can be: stages, their limits, and the analyzers of each.

    stages    reads them from ``infra/spot.yaml``
    runner    sends each analyzer the mail with its stage's limits, and gathers what they say

``python -m examples.workflow MAIL`` does it once (README.md beside this). It knows the SDK only, and no analyzer.
"""
