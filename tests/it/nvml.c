/* A driver's library of two GPUs, of which the second is idle: what the sidecar asks, and nothing else. */
#include <stdio.h>
#include <string.h>

struct pci {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct rates {
    unsigned gpu, memory;
};

static int gpus[2] = {0, 1};

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 2;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, int **gpu) {
    if (index > 1) return 2;
    *gpu = &gpus[index];
    return 0;
}

int nvmlDeviceGetUUID(int *gpu, char *uuid, unsigned length) {
    snprintf(uuid, length, "GPU-%d-stub", *gpu);
    return 0;
}

int nvmlDeviceGetPciInfo_v3(int *gpu, struct pci *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x3A + *gpu);
    return 0;
}

int nvmlDeviceGetUtilizationRates(int *gpu, struct rates *rates) {
    rates->gpu = *gpu ? 7 : 93;
    rates->memory = 0;
    return 0;
}
