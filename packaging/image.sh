#!/bin/bash
# Packs what "make build" built as an OCI image, a layout in a tar file that Docker,
# Podman, containerd and skopeo load: image.sh FOLDER VERSION. The image has the static
# binaries and nothing below them. As dist.sh's, its bytes depend on the commit alone.
set -euo pipefail
umask 022
out=$1 version=$2
cd "$(dirname "$0")/.."
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y go.mod)}
export LC_ALL=C TZ=UTC
mkdir -p "$out"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
blobs=$stage/layout/blobs/sha256
mkdir -p "$blobs"

# pack FOLDER: writes it as a tar file of root's, the same bytes each time.
pack() {
	tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -cf - .
}

# blob TYPE [MEMBERS]: stores standard input and prints its descriptor.
blob() {
	cat >"$stage/blob"
	local digest size
	digest=$(sha256sum <"$stage/blob" | cut -d' ' -f1) size=$(stat -c %s "$stage/blob")
	mv "$stage/blob" "$blobs/$digest"
	printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%d%s}' "$1" "$digest" "$size" "${2:-}"
}

root=$stage/root
for main in cmd/*/main.go; do
	install -D -m 755 -t "$root/usr/bin" "bin/$(basename "$(dirname "$main")")"
done
install -D -m 644 LICENSE "$root/usr/share/doc/ustack/LICENSE"
install -d -m 1777 "$root/tmp" # for snapshots of jscore
pack "$root" >"$stage/layer.tar"
diff=$(sha256sum <"$stage/layer.tar" | cut -d' ' -f1)
layer=$(gzip -n9 <"$stage/layer.tar" | blob layer.v1.tar+gzip)

created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
platform='"architecture":"amd64","os":"linux"'
config=$(blob config.v1+json <<END
{"created":"$created",$platform,"config":{"Env":["PATH=/usr/bin"],"Cmd":["jsprof","--help"],"Labels":{"org.opencontainers.image.title":"ustack","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"MIT"}},"rootfs":{"type":"layers","diff_ids":["sha256:$diff"]},"history":[{"created":"$created","created_by":"make image"}]}
END
)
manifest=$(blob manifest.v1+json ",\"platform\":{$platform},\"annotations\":{\"org.opencontainers.image.ref.name\":\"$version\",\"io.containerd.image.name\":\"localhost/ustack:$version\"}" <<END
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":$config,"layers":[$layer]}
END
)
echo '{"imageLayoutVersion":"1.0.0"}' >"$stage/layout/oci-layout"
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}\n' "$manifest" >"$stage/layout/index.json"
file=ustack-$version-image-amd64.tar
pack "$stage/layout" >"$out/$file"
echo "$(sha256sum <"$out/$file" | cut -d' ' -f1)  $file"
