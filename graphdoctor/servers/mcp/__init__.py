"""``graphdoctor mcp``: the commands as tools of the Model Context Protocol, each run as a child
process.
"""
