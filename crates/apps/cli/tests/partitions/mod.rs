//! Disks with only a partition table, as installers write it (UEFI specification, sections 5.2 and 5.3).

use std::ops::Range;

/// Bytes of a disk: a multiple of the largest sector size of devices.
const DISK: usize = 8 << 20;
/// Number of entries of a GPT; the next constants are the bytes of an entry and of the header.
const ENTRIES: usize = 128;
const ENTRY: usize = 128;
const HEADER: usize = 92;
/// Partition types: Linux and the protective entry.
const LINUX_MBR: u8 = 0x83;
const PROTECTIVE_MBR: u8 = 0xee;
const LINUX_GPT: [u8; 16] =
    [0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4];

/// Returns a disk with an MBR; `partitions` are in sectors.
pub(crate) fn mbr(partitions: [Range<u32>; 2]) -> Vec<u8> {
    let mut disk = vec![0; DISK];
    sign(&mut disk, &partitions.map(|range| (LINUX_MBR, range)));
    disk
}

/// Returns a disk with a GPT for sectors of `sector` bytes.
pub(crate) fn gpt(sector: usize, partitions: [Range<u32>; 2]) -> Vec<u8> {
    let mut disk = vec![0; DISK];
    let last = DISK / sector - 1;
    sign(&mut disk, &[(PROTECTIVE_MBR, 1..last as u32 + 1)]);
    let mut entries = vec![0; ENTRIES * ENTRY];
    for (n, range) in partitions.into_iter().enumerate() {
        let entry = &mut entries[n * ENTRY..];
        entry[..16].copy_from_slice(&LINUX_GPT);
        entry[16] = n as u8 + 1;
        entry[32..40].copy_from_slice(&u64::from(range.start).to_le_bytes());
        entry[40..48].copy_from_slice(&u64::from(range.end - 1).to_le_bytes());
    }
    let entry_sectors = entries.len() / sector;
    for (own, other, at) in [(1, last, 2), (last, 1, last - entry_sectors)] {
        disk[at * sector..][..entries.len()].copy_from_slice(&entries);
        let usable = 2 + entry_sectors..last - entry_sectors;
        let header = header([own, other, usable.start, usable.end - 1], at, crc32(&entries));
        disk[own * sector..][..HEADER].copy_from_slice(&header);
    }
    disk
}

fn sign(disk: &mut [u8], partitions: &[(u8, Range<u32>)]) {
    for (n, (kind, range)) in partitions.iter().enumerate() {
        let entry = &mut disk[446 + 16 * n..];
        entry[4] = *kind;
        entry[8..12].copy_from_slice(&range.start.to_le_bytes());
        entry[12..16].copy_from_slice(&(range.end - range.start).to_le_bytes());
    }
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
}

/// Builds a header. `sectors` are the header's own, the other header's, and the first and last usable
/// one. `at` is the sector at which the entries begin.
fn header(sectors: [usize; 4], at: usize, entries_crc: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(b"EFI PART");
    header[8..12].copy_from_slice(&0x1_0000_u32.to_le_bytes());
    header[12..16].copy_from_slice(&(HEADER as u32).to_le_bytes());
    for (n, sector) in sectors.into_iter().enumerate() {
        header[24 + 8 * n..][..8].copy_from_slice(&(sector as u64).to_le_bytes());
    }
    header[56] = 1;
    header[72..80].copy_from_slice(&(at as u64).to_le_bytes());
    header[80..84].copy_from_slice(&(ENTRIES as u32).to_le_bytes());
    header[84..88].copy_from_slice(&(ENTRY as u32).to_le_bytes());
    header[88..92].copy_from_slice(&entries_crc.to_le_bytes());
    let crc = crc32(&header);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    header
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
