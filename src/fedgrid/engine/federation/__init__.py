"""What a method is written on."""
