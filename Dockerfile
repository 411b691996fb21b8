FROM python:3.13-slim

RUN useradd --create-home --uid 1000 mledger && install -d -o mledger /data
WORKDIR /opt/mledger
COPY pyproject.toml README.md LICENSE ./
COPY tools/constraints.txt tools/
COPY bookie bookie
COPY cli cli
COPY metastore metastore
COPY mledger mledger
RUN pip install --no-cache-dir -c tools/constraints.txt .

USER mledger
WORKDIR /data
VOLUME /data
ENTRYPOINT ["mledger"]
CMD ["--help"]
