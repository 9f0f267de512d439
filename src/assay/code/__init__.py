"""What is known of program text and test runs. Pure: it runs nothing, opens nothing."""
