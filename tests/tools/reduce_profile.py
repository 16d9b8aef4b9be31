#!/usr/bin/env python3
"""Reduces a Vulkan profile to the fields that qcc reads (compiler/target/profile.c and rules.c).

    reduce_profile.py IN.json [OUT.json]      one profile, to OUT or standard output
    reduce_profile.py --all INDIR OUTDIR      every *.json of a folder

compiler/target/profiles was made by --all. Every field stays under the structure in which qcc would
find it, so that the reduced profile means the same to qcc; the description names the origin. A field
that qcc learns to read is added to the tables here.
"""
import json
import pathlib
import sys

LIMITS = """maxComputeSharedMemorySize maxComputeWorkGroupCount
maxComputeWorkGroupInvocations maxComputeWorkGroupSize
maxDescriptorSetStorageBuffers maxPerStageDescriptorStorageBuffers maxStorageBufferRange
minStorageBufferOffsetAlignment""".split()

# (section, structures without VkPhysicalDevice in the order in which qcc looks, fields)
READ = [
    ("properties", "Properties",
     "apiVersion deviceID deviceName deviceType driverVersion vendorID"),
    ("properties", "Vulkan11Properties Maintenance3Properties", "maxMemoryAllocationSize"),
    ("properties", "Vulkan13Properties Maintenance4Properties", "maxBufferSize"),
    ("properties", "Vulkan11Properties SubgroupProperties", "subgroupSize"),
    ("properties", "Vulkan11Properties", "subgroupSupportedStages subgroupSupportedOperations"),
    ("properties", "SubgroupProperties", "supportedStages supportedOperations"),
    ("properties",
     "Vulkan13Properties SubgroupSizeControlProperties SubgroupSizeControlPropertiesEXT",
     "minSubgroupSize maxSubgroupSize requiredSubgroupSizeStages"),
    ("properties", "Vulkan12Properties FloatControlsProperties", "shaderDenormPreserveFloat16"),
    ("properties", "Vulkan13Properties ShaderIntegerDotProductProperties",
     "integerDotProduct4x8BitPackedSignedAccelerated"),
    ("properties", "Vulkan12Properties DriverProperties", "driverID"),
    ("properties", "ShaderSMBuiltinsPropertiesNV", "shaderSMCount"),
    ("properties", "ShaderCoreProperties2AMD", "activeComputeUnitCount"),
    ("features", "Vulkan11Features 16BitStorageFeatures", "storageBuffer16BitAccess"),
    ("features", "Vulkan12Features 8BitStorageFeatures", "storageBuffer8BitAccess"),
    ("features", "Vulkan12Features ShaderFloat16Int8Features Float16Int8Features",
     "shaderFloat16 shaderInt8"),
    ("features", "Vulkan13Features ShaderIntegerDotProductFeatures", "shaderIntegerDotProduct"),
    ("features", "Vulkan13Features SubgroupSizeControlFeatures SubgroupSizeControlFeaturesEXT",
     "subgroupSizeControl computeFullSubgroups"),
    ("features", "Vulkan12Features BufferDeviceAddressFeatures", "bufferDeviceAddress"),
    ("features", "CooperativeMatrixFeatures", "cooperativeMatrix"),
    ("features", "CooperativeMatrix2FeaturesNV",
     "cooperativeMatrixWorkgroupScope cooperativeMatrixFlexibleDimensions "
     "cooperativeMatrixReductions cooperativeMatrixConversions "
     "cooperativeMatrixPerElementOperations cooperativeMatrixTensorAddressing "
     "cooperativeMatrixBlockLoads"),
]
EXTENSIONS = ["VK_KHR_cooperative_matrix", "VK_NV_cooperative_matrix2"]
# The older structures repeat what the newer ones say.
REPEATS = {"supportedStages": "subgroupSupportedStages",
           "supportedOperations": "subgroupSupportedOperations"}


def guaranteed_blocks(profile, capabilities):
    names = [n[0] if isinstance(n, list) and len(n) == 1 else n for n in profile["capabilities"]]
    return [capabilities[n] for n in names if isinstance(n, str)]


def find(blocks, section, structs, field):
    for name in structs.split():
        for full in ("VkPhysicalDevice" + name, "VkPhysicalDevice" + name + "KHR"):
            for block in blocks:
                if field in block.get(section, {}).get(full, {}):
                    return full, block[section][full][field]
    return None, None


def shorten(field, value):
    if field.endswith("Stages") and isinstance(value, list):
        return [v for v in value if v == "VK_SHADER_STAGE_COMPUTE_BIT"]
    if field.endswith("Operations") and isinstance(value, list):
        kept = ("BASIC", "ARITHMETIC", "SHUFFLE", "CLUSTERED")
        return [v for v in value if v.split("_")[-2] in kept]
    return value


def limits(blocks):
    out = {}
    for field in LIMITS:
        for block in blocks:
            device = block.get("properties", {}).get("VkPhysicalDeviceProperties", {})
            all_limits = device.get("limits", {})
            if field in all_limits:
                out[field] = all_limits[field]
                break
    return out


def origin(profile):
    text = profile.get("description", "")
    by = "Reduced to what qcc reads from "
    if "gpuinfo.org" in text:
        return by + "a device's profile in the public database vulkan.gpuinfo.org, exported " + \
            profile["history"][0]["date"] + ", Apache-2.0"
    if "vulkaninfo" in text:
        return f"{by}the output of vulkaninfo --json on the device, {profile['history'][0]['date']}"
    return f"{by}the profile '{profile.get('label', '?')}' of Khronos' Vulkan-Profiles, " \
        f"version {profile.get('version', '?')}, Apache-2.0"


def reduce(full):
    key, profile = next(iter(full["profiles"].items()))
    blocks = guaranteed_blocks(profile, full["capabilities"])
    block = {"extensions": {}, "features": {}, "properties": {}}
    for name in EXTENSIONS:
        for b in blocks:
            if name in b.get("extensions", {}):
                block["extensions"][name] = b["extensions"][name]
    for section, structs, fields in READ:
        for field in fields.split():
            repeated = REPEATS.get(field)
            if repeated and find(blocks, "properties", "Vulkan11Properties", repeated)[0]:
                continue
            struct, value = find(blocks, section, structs, field)
            if struct:
                block[section].setdefault(struct, {})[field] = shorten(field, value)
    block["properties"].setdefault("VkPhysicalDeviceProperties", {})["limits"] = limits(blocks)
    reduced = {
        "$schema": full.get("$schema", ""),
        "capabilities": {"device": block},
        "profiles": {key: {"version": 1, "api-version": profile["api-version"],
                           "label": profile.get("label", key), "description": origin(profile),
                           "capabilities": ["device"]}},
    }
    if "qcc" in full:
        reduced["qcc"] = full["qcc"]
    return reduced


def text(profile):
    """Indented, with a list of numbers or flags on one line."""
    def put(v, depth):
        if isinstance(v, dict) and v:
            inner = [" " * (depth + 1) + json.dumps(k) + ": " + put(x, depth + 1)
                     for k, x in v.items()]
            return "{\n" + ",\n".join(inner) + "\n" + " " * depth + "}"
        return json.dumps(v)
    return put(profile, 0) + "\n"


def main(argv):
    if len(argv) == 4 and argv[1] == "--all":
        for path in sorted(pathlib.Path(argv[2]).glob("*.json")):
            reduced = text(reduce(json.loads(path.read_text())))
            (pathlib.Path(argv[3]) / path.name).write_text(reduced)
        return 0
    if len(argv) in (2, 3) and not argv[1].startswith("-"):
        out = text(reduce(json.loads(pathlib.Path(argv[1]).read_text())))
        if len(argv) == 3:
            pathlib.Path(argv[2]).write_text(out)
        else:
            sys.stdout.write(out)
        return 0
    sys.stderr.write(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv))
