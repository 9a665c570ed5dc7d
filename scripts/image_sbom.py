#!/usr/bin/env python3
"""Writes what is in an image as SPDX 2.3 (JSON), from dpkg's own list of installed packages."""
import argparse
import hashlib
import json
import re
import time


def paragraphs(text):
    for block in text.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", block, re.MULTILINE))
        if fields.get("Status") == "install ok installed":
            yield fields


def identifier(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def package(fields, release):
    name, version, machine = fields["Package"], fields["Version"], fields["Architecture"]
    source = re.match(r"(\S+)(?: \((.+)\))?", fields.get("Source", name))
    return {
        "SPDXID": identifier(f"{name}-{machine}"),
        "name": name,
        "versionInfo": version,
        "supplier": "Organization: Debian",
        "originator": "Person: " + fields.get("Maintainer", "unknown"),
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "sourceInfo": f"built from {source[1]} {source[2] or version}",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": "pkg:deb/debian/{}@{}?arch={}&distro={}".format(
                name, version.replace("+", "%2B").replace(":", "%3A"), machine, release),
        }],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--status", required=True, help="dpkg's status file of the image")
    parser.add_argument("--system", required=True, help="/etc/os-release of the image")
    parser.add_argument("--version", required=True, help="of cortana-vision")
    parser.add_argument("--created", required=True, type=int, help="seconds since 1970")
    options = parser.parse_args()
    with open(options.status, encoding="utf-8") as status:
        text = status.read()
    with open(options.system, encoding="utf-8") as system:
        release = re.search(r"^VERSION_CODENAME=(\S+)", system.read(), re.MULTILINE)[1]
    packages = sorted((package(fields, release) for fields in paragraphs(text)), key=lambda p: p["SPDXID"])
    own = {
        "SPDXID": "SPDXRef-cortana-vision",
        "name": "cortana-vision",
        "versionInfo": options.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0 AND CC-BY-4.0 AND MIT",
        "licenseDeclared": "Apache-2.0 AND CC-BY-4.0 AND MIT",
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "CONTAINER",
    }
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"cortana-vision-{options.version}",
        # Two images with the same packages have the same list, and no other image has it.
        "documentNamespace": "urn:cortana-vision:sbom:{}:{}".format(
            options.version, hashlib.sha256(text.encode()).hexdigest()),
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(options.created)),
            "creators": ["Tool: scripts/image_sbom.py"],
        },
        "packages": [own, *packages],
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
             "relatedSpdxElement": own["SPDXID"]},
            *({"spdxElementId": own["SPDXID"], "relationshipType": "CONTAINS",
               "relatedSpdxElement": p["SPDXID"]} for p in packages),
        ],
    }
    print(json.dumps(document, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
