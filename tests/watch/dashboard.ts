// SPDX-License-Identifier: Apache-2.0
// What Grafana's published types say of a dashboard whose panels ask Prometheus. test_dashboard.py appends constants of this
// type, and the compiler checks each field of them. Some fields are required here that Grafana leaves open: without the
// uid of its source, for instance, a panel asks the instance's default one.
import type { Dashboard, FieldConfig, Panel, VariableModel } from './node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen';
import type * as timeseries from './node_modules/@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen';
import type { Dataquery } from './node_modules/@grafana/grafana-foundation-sdk/dist/prometheus/types.gen';

// As JSON has it: the value of an enumeration, not its name.
type Json<T> = unknown extends T ? T : T extends string ? `${T}` : T extends (infer U)[] ? Json<U>[] :
    T extends object ? { [K in keyof T]: Json<T[K]> } : T;
type With<T, More> = Omit<T, keyof More> & More;

type Source = { type: 'prometheus'; uid: string };
type Query = With<Omit<Dataquery, '_implementsDataqueryVariant'>, { refId: string; datasource: Source }>;

// The options of each kind of panel and the fields of its series; another kind that the dashboard uses needs its line.
type Kinds = {
    timeseries: [timeseries.Options, timeseries.FieldConfig];
};
type PanelOf<Kind extends keyof Kinds> = With<Panel, {
    type: Kind;
    id: number;
    datasource: Source;
    targets: Query[];
    options: Kinds[Kind][0];
    fieldConfig: With<NonNullable<Panel['fieldConfig']>, { defaults: With<FieldConfig, { custom: Kinds[Kind][1] }> }>;
}>;
type Variable = With<VariableModel, { type: 'datasource' }> | With<VariableModel, { type: 'query'; datasource: Source }>;

type Checked = Json<With<Dashboard, {
    uid: string;
    title: string;
    panels: { [Kind in keyof Kinds]: PanelOf<Kind> }[keyof Kinds][];
    templating: { list: Variable[] };
}>>;
