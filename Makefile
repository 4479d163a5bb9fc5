# make build   installs what is missing, builds build/trireme and build/trireme-rank (then: cmake --install build)
# make train   the same, then trains a small GPT on the King James text with 2 ranks: about three minutes on 2 cores
# make test    the same, then builds and runs every test
# CMAKE_FLAGS="-DTRIREME_WERROR=ON" and LIBTORCH_ROOT=/path/to/torch may be set for each.
.PHONY: build train test configure
.DELETE_ON_ERROR:
export CMAKE_FLAGS LIBTORCH_ROOT

build: configure
	@cmake --build build

train: build data/king_james.txt
	@build/trireme train configs/king_james.json --data data/king_james.txt --ranks 2

test: configure
	@cmake --build build --target all tests
	@ctest --test-dir build --output-on-failure

configure:
	@cmake/configure.sh

# Debian's package bible-kjv prints it
data/king_james.txt: | build
	@mkdir -p data
	@bible -f "gen1:1-rev22:21" >$@.part && test -s $@.part && mv $@.part $@
