# Spark for the data pipeline (docs/pipeline.md). Build from the root of the tree:
# docker build --file deploy/spark.Dockerfile --tag quorate-spark .
# The pipeline's own code is no part of the image: compose mounts it, and driver and executors have the same.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE}
# The index that pip fetches from, and the certificates that it trusts: the machine's own, given with --build-arg.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_CERT
# Spark's scripts need ps.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY requirements-pipeline.txt ./
RUN python3 -m venv /opt/spark \
    && /opt/spark/bin/pip install --no-cache-dir --require-hashes --requirement requirements-pipeline.txt \
    && ln -s "$(/opt/spark/bin/python3 -c 'import pyspark; print(pyspark.__path__[0])')" /opt/spark/home
# The user of the nodes' image, to whom the file with the password belongs, too.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin quorate \
    && install --directory --owner quorate --group quorate --mode 0700 /data
ENV PATH=/opt/spark/bin:/opt/spark/home/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    SPARK_HOME=/opt/spark/home \
    PYSPARK_PYTHON=/opt/spark/bin/python3 \
    PYTHONPATH=/opt/quorate
USER quorate
WORKDIR /data
VOLUME /data
EXPOSE 7077 8080 8081
ENTRYPOINT ["spark-class"]
