"""Differences of the contract (contract.py) that are wanted, each with its reason."""


def reason(case, got, want, device):
    return None
