//! Columns that the routes of a flow's addresses fill.

use std::net::IpAddr;

use weir_flow::{Column, FlowBatchBuilder};
use weir_routes::{Lookups, Route, RouteTable, SharedRouteTable};

use crate::key::{FlowKey, KeyFields};

/// Fills columns from the routes of the addresses of flows.
///
/// What no route has is null and not 0: a system of 0 is that of no route or of the own network (as routers export it),
/// and a prefix of 0 bits is a default route.
#[derive(Debug)]
pub(crate) struct RouteColumns {
    routes: SharedRouteTable,
    lookups: Lookups,
}

impl RouteColumns {
    pub(crate) fn new(routes: SharedRouteTable) -> Self {
        Self { routes, lookups: Lookups::default() }
    }

    /// Writes the columns of the flows of these keys, but for addresses that are not part of the key.
    pub(crate) fn write(
        &mut self,
        fields: &KeyFields,
        keys: impl Iterator<Item = FlowKey> + Clone,
        builder: &mut FlowBatchBuilder,
    ) {
        let table = self.routes.current();
        if fields.src_addr {
            self.lookups.find(&table, keys.clone().map(|key| key.src_addr()));
            self.prefixes(&table, [Column::SrcAs, Column::SrcMask], builder);
        }
        if fields.dst_addr {
            self.lookups.find(&table, keys.map(|key| key.dst_addr()));
            self.prefixes(&table, [Column::DstAs, Column::DstMask], builder);
            self.hops(&table, Column::NextHop, |route| route.attributes.next_hop, builder);
            self.hops(&table, Column::BgpNextHop, |route| route.attributes.bgp_next_hop, builder);
        }
    }

    fn routes<'t>(&'t self, table: &'t RouteTable) -> impl ExactSizeIterator<Item = Option<Route>> + 't {
        self.lookups.routes(table)
    }

    fn prefixes(&self, table: &RouteTable, [system, mask]: [Column; 2], builder: &mut FlowBatchBuilder) {
        // a column of nulls alone is left out
        if self.routes(table).all(|route| route.is_none()) {
            return;
        }
        let column = builder.u32(system);
        for route in self.routes(table) {
            column.push(route.map(|route| route.attributes.autonomous_system).filter(|system| *system != 0));
        }
        let column = builder.u8(mask);
        for route in self.routes(table) {
            column.push(route.map(|route| route.prefix_bits));
        }
    }

    fn hops(
        &self,
        table: &RouteTable,
        column: Column,
        hop: impl Fn(Route) -> Option<IpAddr>,
        builder: &mut FlowBatchBuilder,
    ) {
        let hops = || self.routes(table).map(|route| route.and_then(&hop));
        if hops().all(|hop| hop.is_none()) {
            return;
        }
        let column = builder.address(column);
        for hop in hops() {
            match hop {
                Some(IpAddr::V4(hop)) => column.push(Some(&hop.octets())),
                Some(IpAddr::V6(hop)) => column.push(Some(&hop.octets())),
                None => column.push(None),
            }
        }
    }
}
