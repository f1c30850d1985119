//! Managed memory: advice, and what the runtime says about a range.

/// `cudaMemAttachGlobal`.
pub const ATTACH_GLOBAL: u32 = 1;
/// `cudaMemAttachHost`.
pub const ATTACH_HOST: u32 = 2;

/// `cudaMemRangeAttributeReadMostly`.
pub const RANGE_READ_MOSTLY: u32 = 1;
/// `cudaMemRangeAttributePreferredLocation`.
pub const RANGE_PREFERRED_LOCATION: u32 = 2;
/// `cudaMemRangeAttributeAccessedBy`.
pub const RANGE_ACCESSED_BY: u32 = 3;
/// `cudaMemRangeAttributeLastPrefetchLocation`.
pub const RANGE_LAST_PREFETCH_LOCATION: u32 = 4;
/// `cudaMemRangeAttributePreferredLocationType`.
pub const RANGE_PREFERRED_LOCATION_TYPE: u32 = 5;
/// `cudaMemRangeAttributePreferredLocationId`.
pub const RANGE_PREFERRED_LOCATION_ID: u32 = 6;
/// `cudaMemRangeAttributeLastPrefetchLocationType`.
pub const RANGE_LAST_PREFETCH_LOCATION_TYPE: u32 = 7;
/// `cudaMemRangeAttributeLastPrefetchLocationId`.
pub const RANGE_LAST_PREFETCH_LOCATION_ID: u32 = 8;

/// `cudaMemAdviseSetReadMostly`.
pub const ADVISE_SET_READ_MOSTLY: u32 = 1;
/// `cudaMemAdviseUnsetReadMostly`.
pub const ADVISE_UNSET_READ_MOSTLY: u32 = 2;
/// `cudaMemAdviseSetPreferredLocation`.
pub const ADVISE_SET_PREFERRED_LOCATION: u32 = 3;
/// `cudaMemAdviseUnsetPreferredLocation`.
pub const ADVISE_UNSET_PREFERRED_LOCATION: u32 = 4;
/// `cudaMemAdviseSetAccessedBy`.
pub const ADVISE_SET_ACCESSED_BY: u32 = 5;
/// `cudaMemAdviseUnsetAccessedBy`.
pub const ADVISE_UNSET_ACCESSED_BY: u32 = 6;
