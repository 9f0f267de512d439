#!/bin/sh
{ echo P2; echo 6 4; echo 255; for row in 1 2 3 4; do echo 0 0 0 255 255 255; done; } > /workspace/flag.pgm
