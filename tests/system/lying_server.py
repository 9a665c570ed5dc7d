"""A server that speaks S3 and lies: each test says what it answers. It checks no signature."""

from answering_server import AnsweringServer

ENVIRONMENT = {"STORE_URL": "s3://lies", "S3_REGION": "us-east-1", "S3_ACCESS_KEY_ID": "k",
               "S3_SECRET_ACCESS_KEY": "s"}


class LyingServer(AnsweringServer):
    def environment(self, **more):
        return {**ENVIRONMENT, "S3_ENDPOINT": self.url, **more}


def list_page(keys, token=None):
    """The XML of a page of a list; with a token, of one that is not the last."""
    entries = "".join(f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00Z</LastModified>"
                      f'<ETag>"x"</ETag><Size>1</Size></Contents>' for key in keys)
    more = (f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
            if token else "<IsTruncated>false</IsTruncated>")
    return f"<ListBucketResult>{more}{entries}</ListBucketResult>"
