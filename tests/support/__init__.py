"""What the tests share: real servers, clean chroots, a loop."""
