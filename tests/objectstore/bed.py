"""An S3 for tests: moto's server, which obeys commands on standard input and ends with it.

Prints its address, then for each line `ok` and what there is to say:

    bucket NAME                     makes a bucket
    put FILE-OR-DIRECTORY S3-URI    copies a file, or the files of a directory
    delete S3-URI                   removes a file
    user NAME                       makes a user who may do nothing, and says the keys: `ID SECRET`
    allow NAME ACTION RESOURCE      lets the user
    guard                           from now on keys are looked at
"""

import json
import pathlib
import sys

import boto3
from moto import settings
from moto.server import ThreadedMotoServer


def client(service, endpoint):
    return boto3.client(
        service, endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="root", aws_secret_access_key="root"
    )


def split(uri):
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key.rstrip("/")


class Store:
    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.s3 = client("s3", endpoint)
        self.iam = client("iam", endpoint)
        self.allowed = {}

    def bucket(self, name):
        self.s3.create_bucket(Bucket=name)

    def put(self, local, uri):
        bucket, prefix = split(uri)
        local = pathlib.Path(local)
        if local.is_file():
            self.s3.put_object(Bucket=bucket, Key=prefix, Body=local.read_bytes())
        for path in sorted(local.rglob("*")):
            if path.is_file():
                key = f"{prefix}/{path.relative_to(local)}".lstrip("/")
                self.s3.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())

    def delete(self, uri):
        bucket, key = split(uri)
        self.s3.delete_object(Bucket=bucket, Key=key)

    def user(self, name):
        self.iam.create_user(UserName=name)
        key = self.iam.create_access_key(UserName=name)["AccessKey"]
        return f"{key['AccessKeyId']} {key['SecretAccessKey']}"

    def allow(self, name, action, resource):
        statements = self.allowed.setdefault(name, [])
        statements.append({"Effect": "Allow", "Action": action, "Resource": resource})
        document = json.dumps({"Version": "2012-10-17", "Statement": statements})
        self.iam.put_user_policy(UserName=name, PolicyName="allowed", PolicyDocument=document)

    def guard(self):
        settings.INITIAL_NO_AUTH_ACTION_COUNT = 0


def main():
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    store = Store(endpoint)
    print(endpoint, flush=True)
    for line in sys.stdin:
        command, *words = line.split()
        try:
            print("ok", getattr(store, command)(*words) or "", flush=True)
        except Exception as error:
            print("failed", repr(error), flush=True)


main()
