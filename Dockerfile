# SPDX-License-Identifier: Apache-2.0
# An image with Kerf's programs that runs the demo: docker build -t kerf . && docker run --rm kerf
FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates
COPY scripts/setup.sh /kerf/scripts/setup.sh
RUN /kerf/scripts/setup.sh
COPY . /kerf
WORKDIR /kerf
# A folder build of the checkout, if any, was made for other paths.
RUN rm -rf build && cmake --preset release -DKERF_PYTHON=OFF && cmake --build --preset release --target kerf kerf-run kerf-profile \
  && for program in kerf kerf-run kerf-profile; do strip build/bin/$program; done

FROM debian:12
# The libraries of the programs, which contain LLVM and MLIR (docs/dependencies.md), and Python for the table of the demo.
RUN apt-get update && apt-get install -y --no-install-recommends libdnnl2 libprotobuf-lite32 libsimdjson14 libmimalloc2.0 libfmt9 zlib1g \
    libzstd1 libgomp1 libopenmpi3 openmpi-bin python3 && rm -rf /var/lib/apt/lists/*
COPY --from=build /kerf/build/bin/kerf /kerf/build/bin/kerf-run /kerf/build/bin/kerf-profile /usr/local/bin/
COPY --from=build /kerf/examples /kerf/examples
COPY --from=build /kerf/clusters /kerf/clusters
WORKDIR /kerf
# The commands of `make demo`.
CMD ["/bin/sh", "-ec", "kerf train examples/gpt2/model.onnx --data examples/gpt2/batches.npz --ranks 4 --all-ranks --steps 20 --optimizer adamw --lr 1e-3 --weight-decay 0.01 --log losses.jsonl && python3 examples/gpt2/compare.py examples/gpt2/golden.json adamw losses.jsonl"]
