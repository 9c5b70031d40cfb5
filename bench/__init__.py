"""Benches: each prints ratios in one run, with the bare part or the peer beside ours."""
