"""Protocols that editors and coding agents speak, over the commands and facts that exist; one
package for each.
"""
