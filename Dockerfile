# One image with every program; which one runs, its first word says:
#
#   buildah bud --build-arg BASE=… --timestamp "$(git log -1 --format=%ct)" -t cortana-vision:0.1.0 .
#   podman run … cortana-vision:0.1.0 ocr-worker
#
# For another processor (--platform linux/arm64) its system is installed by that system's own programs, under qemu-user, which the
# kernel has to know (binfmt_misc).
#
# BASE       a Debian 12 or 13 without recommendations; releases pass it with its digest
# BUILD_BASE the same for the processor of the machine that builds, so that a cross compiler makes the programs
# SNAPSHOT   the address of Debian's snapshot archive at a time (…/archive/debian/20261101T000000Z): the same
#            packages at every build; empty: today's
# LANGUAGES  Tesseract's models (apt-cache search tesseract-ocr- lists them); empty: those of scripts/packages
ARG BASE=debian:trixie-slim
ARG BUILD_BASE=${BASE}

# ---- the programs --------------------------------------------------------------------------------

FROM ${BUILD_BASE} AS build
ARG SNAPSHOT=
ARG SOURCE_DATE_EPOCH=0
ARG TARGETARCH=
COPY scripts/image_sources scripts/image_compiler scripts/packages /scripts/
RUN /scripts/image_sources "${SNAPSHOT}" && /scripts/image_compiler "${TARGETARCH}"
COPY . /src
RUN meson setup /build /src $(cat /scripts/meson_options) --prefix=/usr -Dtests=false \
    && ninja -C /build \
    && DESTDIR=/out meson install -C /build --no-rebuild --strip --quiet \
    && /src/scripts/image_libraries /out/usr/bin/* /out/usr/libexec/cortana/* > /out/libraries

# ---- what they need, and nothing else --------------------------------------------------------------

FROM ${BASE} AS system
ARG SNAPSHOT=
ARG LANGUAGES=
COPY --from=build /scripts/image_sources /scripts/packages /out/libraries /run/image/
# What differs from build to build, and what would give a process more than its user has, goes again.
RUN /run/image/image_sources "${SNAPSHOT}" \
    && apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io ca-certificates \
        $(cat /run/image/libraries) \
        $(for language in ${LANGUAGES:-$(sed -n '/^\[runtime\]/,/^$/s/^tesseract-ocr-//p' /run/image/packages)} osd; do echo "tesseract-ocr-${language}" | tr _ -; done) \
    && groupadd --gid 10001 cortana \
    && useradd --uid 10001 --gid 10001 --no-log-init --no-create-home --home-dir /nonexistent \
        --shell /usr/sbin/nologin cortana \
    && mkdir /work && chown 10001:10001 /work \
    && find / -xdev -perm /6000 -type f -exec chmod a-s {} + \
    && rm -rf /run/image /var/lib/apt/lists/* /var/cache/* /var/log/* /tmp/* \
        /etc/passwd- /etc/shadow- /etc/group- /etc/gshadow- /etc/subuid- /etc/subgid-

# ---- the list of what is in it -----------------------------------------------------------------------

FROM build AS sbom
ARG SOURCE_DATE_EPOCH=0
ARG VERSION=0.1.0
COPY --from=system /var/lib/dpkg/status /usr/lib/os-release /system/
RUN python3 /src/scripts/image_sbom.py --status /system/status --system /system/os-release --version "${VERSION}" \
        --created "${SOURCE_DATE_EPOCH}" > /sbom.spdx.json

# ---- the image -----------------------------------------------------------------------------------------

FROM system
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="cortana-vision" \
      org.opencontainers.image.description="Makes the text on screen in videos searchable" \
      org.opencontainers.image.licenses="Apache-2.0 AND CC-BY-4.0 AND MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=sbom /sbom.spdx.json /usr/share/cortana-vision/sbom.spdx.json
COPY --from=build /src/debian/copyright /usr/share/doc/cortana-vision/
COPY --from=build /out/usr/bin/ /usr/bin/
COPY --from=build /out/usr/libexec/ /usr/libexec/
ENV PATH=/usr/libexec/cortana:/usr/local/bin:/usr/bin:/bin CORTANA_SCRATCH=/work OMP_THREAD_LIMIT=1
USER 10001:10001
WORKDIR /work
STOPSIGNAL SIGTERM
CMD ["cortana", "--help"]
