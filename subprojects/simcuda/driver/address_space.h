/* The device addresses of one device and the host memory that stands behind them. */
#ifndef SIMCUDA_ADDRESS_SPACE_H
#define SIMCUDA_ADDRESS_SPACE_H

#include "entry.h"

#include <stddef.h>
#include <stdint.h>

/* Takes `bytes` (whole pages) of addresses, the lowest that fit, so that freed ones come back soon.
 * false: no room, which an address range of several times the capacity makes rare. */
bool address_space_take(CUdevice device, size_t bytes, CUdeviceptr *address);
void address_space_give(CUdevice device, CUdeviceptr address, size_t bytes);

/* Forgets what was written to [address, address + bytes): it reads as zero from now on. */
void address_space_clear(CUdevice device, CUdeviceptr address, size_t bytes);

unsigned char *address_space_shadow(CUdevice device, CUdeviceptr address);
bool address_space_overlaps(CUdeviceptr address, size_t bytes); /* any device's */
CUdeviceptr address_space_base(CUdevice device);

/* The sparse file; address x lies at offset x - base. After the device's range it holds
 * ADDRESS_SPACE_SHARED bytes, mapped at address_space_shared, that other processes may map. */
enum { ADDRESS_SPACE_SHARED = 1 << 20 };
int address_space_file(CUdevice device);
uint64_t address_space_shared_offset(CUdevice device);
void *address_space_shared(CUdevice device);

/* Which device's file has the byte at `shadow`, and where. False: it is no address_space_shadow. */
bool address_space_find(const unsigned char *shadow, int *file, uint64_t *offset);

#endif
