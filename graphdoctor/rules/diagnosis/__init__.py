"""A recording to a diagnosis: sites, matching, costs, fingerprints, comparison. Knows no rule by
name.
"""
