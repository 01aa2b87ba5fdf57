//! One handler per message.

use actix::{ActorContext, Context, Handler};

use super::Compactor;
use super::messages::{CompactNow, Stop};
use super::round::Reclaim;

impl Handler<CompactNow> for Compactor {
    type Result = ();

    fn handle(&mut self, message: CompactNow, context: &mut Context<Compactor>) {
        let reclaim = match message.reclaim {
            true => Reclaim::Yes,
            false => Reclaim::No,
        };
        self.start_round(reclaim, Some(message.done), context);
    }
}

impl Handler<Stop> for Compactor {
    type Result = ();

    fn handle(&mut self, _: Stop, context: &mut Context<Compactor>) {
        context.stop();
    }
}
