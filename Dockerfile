# Two images on Debian's own Python, without what is only needed to install. Target `mledger`: bookies and the command.
# Target `pulsar`: Pulsar in one process, started as the image apachepulsar/pulsar is.
FROM debian:12.12-slim AS install
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3-venv ca-certificates \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY tools/constraints.txt tools/
RUN python3 -m venv /opt/mledger
COPY pyproject.toml README.md LICENSE ./
COPY mledger mledger
COPY pyspark_mledger pyspark_mledger
COPY pytest_mledger pytest_mledger
RUN /opt/mledger/bin/pip install --no-cache-dir -c tools/constraints.txt '.[local,auth]' \
    && /opt/mledger/bin/pip uninstall -y pip setuptools \
    && find /opt/mledger -type d -name tests -prune -exec rm -rf {} +

FROM debian:12.12-slim AS mledger
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* \
    && useradd --create-home --uid 1000 --gid 0 mledger \
    && install -d -o mledger -g 0 -m 775 /data \
    && chmod -R g=u /home/mledger
COPY --from=install /opt/mledger /opt/mledger
ENV PATH=/opt/mledger/bin:$PATH PYTHONDONTWRITEBYTECODE=1 HOME=/home/mledger
# Any user of group 0 can run it: OpenShift chooses one. A number, since Kubernetes' runAsNonRoot does not know names.
USER 1000
WORKDIR /data
VOLUME /data
# Of a bookie, which serves metrics and health on BOOKIE_METRICS_PORT; other commands end before it is asked.
ENV BOOKIE_METRICS_PORT=8000
HEALTHCHECK --interval=3s --timeout=30s --retries=40 CMD python -c \
    "import os, urllib.request as http; http.urlopen(f'http://127.0.0.1:{os.environ[\"BOOKIE_METRICS_PORT\"]}/health', timeout=20)"
ENTRYPOINT ["mledger"]
CMD ["--help"]

FROM mledger AS pulsar
USER root
COPY tools/containers/pulsar /pulsar
RUN chmod 755 /pulsar/bin/* && install -d -o mledger -g 0 -m 775 /pulsar /pulsar/conf /pulsar/data \
    && chown mledger:0 /pulsar/conf/* && chmod g=u /pulsar/conf/*
USER 1000
WORKDIR /pulsar
VOLUME /pulsar/data
EXPOSE 6650 8080
HEALTHCHECK --interval=3s --timeout=30s --retries=40 CMD python -c \
    "import urllib.request as http; http.urlopen('http://127.0.0.1:8080/health', timeout=20)"
ENTRYPOINT []
CMD ["bin/pulsar", "standalone"]
