"""What the report and the study share: the shell of a page, and text that can stand on one."""
