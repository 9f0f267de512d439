"""Analysis of program text and test reports. Pure: runs no code, opens no file."""
