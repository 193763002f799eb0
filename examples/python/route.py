"""Asks a warmroute router where a prompt should go, reports how it went, and hands a request over.

python examples/python/route.py 127.0.0.1:50051 --model llama --generate
"""

import argparse
from array import array

from warmroute.client import Client


def main() -> None:
    """Route once by hand; with `--generate`, let the router forward."""
    parser = argparse.ArgumentParser()
    parser.add_argument("router", help="HOST:PORT of the gRPC endpoint")
    parser.add_argument("--model", default="", help="model; empty for any")
    parser.add_argument("--key", help="API key")
    parser.add_argument("--generate", action="store_true", help="hand the request over, and print the reply")
    arguments = parser.parse_args()
    tokens = array("I", (number % 500 for number in range(2_000)))

    with Client(arguments.router, api_key=arguments.key) as client:
        # Leaving the block reports the end: finished, or failed where it is left by an exception.
        with client.route(
            tokens, model=arguments.model, tenant="example", max_output_tokens=120
        ) as reservation:
            print(
                f"{reservation.worker} at {reservation.url} holds {reservation.overlap_tokens} of "
                f"{reservation.prompt_tokens} tokens: {reservation.reason}"
            )
            # ... send the request to `reservation.url` with your own HTTP client; at the first token:
            reservation.first_token()
            # ... and as the reply grows:
            reservation.progress(120)

        if arguments.generate:
            # Leaving this block has the engine abort what is not complete.
            with client.generate(tokens, model=arguments.model, max_output_tokens=32) as reply:
                for chunk in reply:
                    print(chunk.text, end="", flush=True)
                print(f"\n[{reply.worker}] {reply.usage.completion_tokens if reply.usage else '?'} tokens")


if __name__ == "__main__":
    main()
