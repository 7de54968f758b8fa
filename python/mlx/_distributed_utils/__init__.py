"""What programs that start themselves on several machines import.

Host files can be read. Nothing can be launched: no backend connects processes.
"""
