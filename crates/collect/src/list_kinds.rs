//! Which elements are lists (RFC 6313).

use weir_flow::registry::{self, DataType};
use weir_wire::{ElementId, ListKind};

/// Which kind of list values of this type are.
pub(crate) const fn kind_of(data_type: DataType) -> Option<ListKind> {
    match data_type {
        DataType::BasicList => Some(ListKind::Basic),
        DataType::SubTemplateList => Some(ListKind::SubTemplate),
        DataType::SubTemplateMultiList => Some(ListKind::SubTemplateMulti),
        _ => None,
    }
}

/// Which kind of list the registry says that an element is.
pub(crate) fn registered(element: ElementId) -> Option<ListKind> {
    kind_of(registry::element(element.enterprise, element.id)?.data_type)
}
