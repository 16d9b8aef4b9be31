# make demo     install what is missing, build qcc, compile the example model for the local device, run it
# make test     everything that needs no GPU; DRIVER=swiftshader for the other software driver
# make check    the quick part: unit tests and models end to end, without the kernel tests
# make          build qcc         make bench          speed of the example model on the local device
#                                 make bench-kernels  speed of the matrix kernels by weight format
# make static   one portable qcc
# make install  PREFIX=/usr/local make clean

CC      ?= cc
CFLAGS  ?= -O2 -g
BUILD   ?= build
PREFIX  ?= /usr/local
WARN     = -Wall -Wextra -Wshadow -Wconversion
VERSION := 0.1.0

shaderc_version := $(shell pkg-config --modversion shaderc 2>/dev/null || echo unknown)
lua_cflags  = $(shell pkg-config --cflags lua5.4 2>/dev/null || echo -I/usr/include/lua5.4)
lua_libs    = $(shell pkg-config --libs lua5.4 2>/dev/null || echo -llua5.4)
all_cflags  = -std=gnu17 $(CFLAGS) $(WARN) $(SANITIZE:%=-fsanitize=%) -I. -MMD -MP -pthread
qcc_cflags  = $(all_cflags) $(lua_cflags) -DQCC_VERSION='"$(VERSION)"' -DQCC_SHADERC_VERSION='"$(shaderc_version)"'
# the runtime is small code that runs on other machines: no debug information, sections that the linker can drop
runtime_cflags = -std=gnu17 -O2 $(WARN) -I. -MMD -MP -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -ffile-prefix-map=$(CURDIR)=. -pthread
libs        = $(lua_libs) -ljansson -lzstd -lxxhash $$(sh tools/shaderc_libs.sh $(CC)) -ldl -lm -pthread

compiler_src := $(filter-out compiler/main.c,$(wildcard compiler/*.c compiler/target/*.c))
runtime_src  := $(wildcard runtime/*.c)
embed_src    := $(sort $(wildcard compiler/arch/*.lua compiler/arch/*/*.lua compiler/target/profiles/*.json kernels/*.comp kernels/*/*.glsl kernels/*/*.comp \
                kernels/*/*.h templates/* runtime/*.c runtime/*.h))
compiler_obj := $(compiler_src:%.c=$(BUILD)/%.o) $(BUILD)/formats.o $(BUILD)/embedded.o $(BUILD)/archive.o
runtime_obj  := $(runtime_src:%.c=$(BUILD)/%.o)
kernel_test_src := $(filter-out tests/kernels/test_% tests/kernels/bench_%,$(wildcard tests/kernels/*.c))

# make V=1 shows the commands
Q := $(if $(V),,@)
say = $(if $(V),,@echo '  $(1)')

.PHONY: all deps demo test check bench bench-kernels static format install clean
.DELETE_ON_ERROR:
all: $(BUILD)/qcc

$(BUILD)/qcc: $(BUILD)/compiler/main.o $(BUILD)/libqcc.a
	$(call say,link $@)
	$(Q)$(CC) $(CFLAGS) $(SANITIZE:%=-fsanitize=%) -o $@ $^ $(libs)

$(BUILD)/libqcc.a: $(compiler_obj)
	$(Q)rm -f $@ && ar rcsD $@ $^

$(BUILD)/compiler/%.o: compiler/%.c
	@mkdir -p $(@D)
	$(call say,cc $<)
	$(Q)$(CC) $(qcc_cflags) -c $< -o $@

$(BUILD)/runtime/%.o: runtime/%.c
	@mkdir -p $(@D)
	$(call say,cc $<)
	$(Q)$(CC) $(runtime_cflags) -c $< -o $@

# formats are listed by their files
$(BUILD)/formats.c: tools/gen_formats.sh $(wildcard kernels/formats/*.h)
	@mkdir -p $(@D)
	$(Q)sh tools/gen_formats.sh $@

$(BUILD)/formats.o: $(BUILD)/formats.c
	$(call say,cc $<)
	$(Q)$(CC) $(qcc_cflags) -c $< -o $@

# what qcc carries: Lua, kernels, templates, profiles, the runtime's source, and the runtime itself with the decompressor
$(BUILD)/embed: tools/embed.c
	@mkdir -p $(@D)
	$(Q)$(CC) -O1 -std=gnu17 $(WARN) -o $@ $<

$(BUILD)/embedded.c: $(BUILD)/embed $(embed_src)
	$(Q)$(BUILD)/embed $@ $(embed_src)

$(BUILD)/embedded.o: $(BUILD)/embedded.c
	$(call say,cc $<)
	$(Q)$(CC) $(qcc_cflags) -g0 -c $< -o $@

$(BUILD)/libqccrt.a: $(runtime_obj)
	$(Q)rm -f $@
	$(Q)printf 'create %s\n$(foreach o,$(runtime_obj),addmod $(o)\n)addlib %s\nsave\nend\n' $@ "$$($(CC) -print-file-name=libzstd.a)" | ar -M
	$(Q)objcopy --strip-debug $@

$(BUILD)/archive.o: tools/archive.S $(BUILD)/libqccrt.a
	$(Q)$(CC) -DARCHIVE='"$(BUILD)/libqccrt.a"' -c $< -o $@

# one file that runs where only libc is installed
static: $(BUILD)/qcc-static
$(BUILD)/qcc-static: $(BUILD)/compiler/main.o $(BUILD)/libqcc.a
	sh tools/link_static.sh $(CC) $@ $^

deps:
	@sh tools/deps.sh

demo: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@sh examples/demo.sh $(BUILD)/qcc

test: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD=$(BUILD) CC="$(CC)" DRIVER="$(DRIVER)" sh tests/run.sh all
check: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD=$(BUILD) CC="$(CC)" DRIVER="$(DRIVER)" sh tests/run.sh quick

bench: all
	@sh tests/bench.sh $(BUILD)/qcc
# BENCH_FLAGS: see tests/kernels/bench_kernels.c
bench-kernels: $(BUILD)/tests/bench_kernels
	@$< $(BENCH_FLAGS)

# tests: one program per file, linked with the part of qcc (and of the runtime) that it uses
$(BUILD)/librt-test.a: $(runtime_src)
	@mkdir -p $(BUILD)/rt
	$(Q)for f in $(filter-out runtime/main.c,$(runtime_src)); do $(CC) $(all_cflags) -c $$f -o $(BUILD)/rt/$$(basename $$f .c).o || exit 1; done
	$(Q)rm -f $@ && ar rcsD $@ $(patsubst runtime/%.c,$(BUILD)/rt/%.o,$(filter-out runtime/main.c,$(runtime_src)))

$(BUILD)/tests/%: tests/unit/%.c $(BUILD)/libqcc.a $(BUILD)/librt-test.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(qcc_cflags) -o $@ $< $(BUILD)/libqcc.a $(BUILD)/librt-test.a $(libs)

$(BUILD)/tests/%: tests/kernels/%.c $(BUILD)/libqcc.a $(wildcard tests/kernels/*.h tests/kernels/*.c)
	@mkdir -p $(@D)
	$(Q)$(CC) $(qcc_cflags) -o $@ $< $(kernel_test_src) $(BUILD)/libqcc.a $(libs)

# the fuzz targets as programs that run the files named to them
$(BUILD)/tests/fuzz_%: tests/fuzz/fuzz_%.c $(BUILD)/libqcc.a $(BUILD)/librt-test.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(qcc_cflags) -DREPLAY -o $@ $< $(BUILD)/libqcc.a $(BUILD)/librt-test.a $(libs)

# a kernel test or benchmark with everything but libc inside, for a machine without the packages:
# make build/static/test_matmul
$(BUILD)/static/%.o: tests/kernels/%.c $(wildcard tests/kernels/*.h)
	@mkdir -p $(@D)
	$(Q)$(CC) $(qcc_cflags) -c $< -o $@

.PRECIOUS: $(BUILD)/static/%.o
$(BUILD)/static/%: $(BUILD)/static/%.o $(kernel_test_src:tests/kernels/%.c=$(BUILD)/static/%.o) $(BUILD)/libqcc.a
	$(Q)sh tools/link_static.sh $(CC) $@ $^

# the C text as .clang-format says; needs clang-format
format:
	$(Q)clang-format -i $(filter-out runtime/unicode_tables.h,$(shell find compiler runtime tests -name '*.[ch]'))

install: all
	install -D $(BUILD)/qcc $(DESTDIR)$(PREFIX)/bin/qcc

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
