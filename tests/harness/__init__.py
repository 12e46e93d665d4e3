# SPDX-License-Identifier: GPL-2.0
"""What the tests in the guest share: see "How to write a guest test" in CONTRIBUTING.md."""
