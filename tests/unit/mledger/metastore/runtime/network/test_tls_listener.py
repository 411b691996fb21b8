"""Certificates that are renewed while a server runs."""

import ssl

from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.network.tls_listener import RenewedCertificates
from tests.support.aio import run


def test_a_renewal_that_failed_is_tried_again_although_the_files_stay(tmp_path):
    certificate = tmp_path / "certificate.pem"
    certificate.write_text("first")
    allowed = True

    def build() -> ssl.SSLContext:
        if not allowed:
            raise MledgerError(f"{certificate} cannot be read: its mode")
        return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    async def main():
        nonlocal allowed
        certificates = RenewedCertificates(build, [str(certificate)], every_s=0)
        first = certificates.current()
        certificate.write_text("second")
        allowed = False
        assert certificates.current() is first
        allowed = True
        second = certificates.current()
        assert second is not first
        assert certificates.current() is second

    run(main())
