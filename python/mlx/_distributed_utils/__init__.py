"""What programs that start themselves on several machines import: host files, and starting."""
