# One image for every role: redisjobs, and an app whose folder is named with APP. The role is the container's command.
#
#   docker build --build-arg APP=examples/orders -t shop .
#   docker run shop worker app:app --queues mail,stock
#
# For an app elsewhere, build from this image or copy these lines; no URL and no password belongs into an image.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS built
WORKDIR /src
COPY pyproject.toml README.md LICENSE pytest_redisjobs.py ./
COPY lua lua
COPY redisjobs redisjobs
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
# the wheel's own name, so that its extras can be asked for
RUN python -m venv /venv \
    && wheel="$(find /wheels -name '*.whl')" \
    && /venv/bin/pip install --no-cache-dir "${wheel}[encryption,uvloop]"

FROM python:${PYTHON}-slim
ARG APP=examples/orders
COPY --from=built /venv /venv
COPY ${APP} /app
WORKDIR /app
ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    REDISJOBS_LOG_FORMAT=json
# by number, so that Kubernetes can see that it is not root; it owns no file
USER 65532:65532
# As process 1 the command forwards signals and reaps orphans by itself: no shell and no init before it.
ENTRYPOINT ["redisjobs"]
CMD ["--help"]
