"""What tests share: real servers, clean chroots, an event loop."""
