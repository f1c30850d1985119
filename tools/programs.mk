# Builds each .cu of a folder into a program, with an ordinary clang or with MGB's wrapper. The folder's Makefile includes
# this; DEPENDS are headers that its programs share, ONLY the programs to build where that is not all, USED more flags.
#
#   make CUDA=/path/to/cuda              plain, into ./build
#   make CXX=mgb-clang++ OUT=/some/dir   with MGB

ifeq ($(origin CXX),default)
CXX := clang++-22
endif
CUDA ?= /usr/local/cuda
ARCH ?= sm_90
CXXFLAGS ?= -O1
OUT ?= build
ifeq ($(findstring mgb,$(notdir $(firstword $(CXX)))),)
PLAIN := --cuda-path=$(CUDA) -Wno-unknown-cuda-version -I$(OUT)/.empty -I$(CUDA)/include/cccl
LIBRARIES := -L$(CUDA)/lib64 -lcudart
endif

PROGRAMS := $(addprefix $(OUT)/,$(or $(ONLY),$(basename $(wildcard *.cu))))
all: $(PROGRAMS)
.PHONY: all clean

# clang includes this header of cuRAND's whether CUDA has it or not.
EMPTY := $(OUT)/.empty/curand_mtgp32_kernel.h
$(EMPTY):
	@mkdir -p $(@D)
	@touch $@

BUILD = $(CXX) --offload-arch=$(ARCH) $(CXXFLAGS) -std=c++17 -Wno-parentheses $(PLAIN) $< -o $@ $(USED) $(LIBRARIES)
$(OUT)/%: %.cu $(DEPENDS) | $(EMPTY)
	$(BUILD)

clean:
	rm -rf build
