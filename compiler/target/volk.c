/* volk.c - the Vulkan entry points, found at run time: qcc starts without a Vulkan loader. */
#define VOLK_IMPLEMENTATION
#include <volk.h>
