"""The admin REST API at Pulsar's paths: what each request does, and the server that receives them."""
