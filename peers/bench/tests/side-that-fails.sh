#!/bin/sh
# Fails as a side does that finds no server.
echo "no such server" >&2
exit 9
